package host

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	label63, label64 := strings.Repeat("a", 63), strings.Repeat("a", 64)
	long := strings.Repeat(label63+".", 3)
	for in, want := range map[string]string{
		"external.com":                 "external.com",
		"API.External.Com":             "api.external.com",
		"external.com.":                "external.com",
		"reviews":                      "reviews",
		"*.external.com":               "*.external.com",
		"*.EXTERNAL.com.":              "*.external.com",
		"*.com":                        "*.com",
		"xn--mnchen-3ya.de":            "xn--mnchen-3ya.de",
		"3com.com":                     "3com.com",
		"a--b.com":                     "a--b.com",
		label63 + ".com":               label63 + ".com",
		long + strings.Repeat("b", 61): long + strings.Repeat("b", 61),
	} {
		got, err := Parse(in)
		if err != nil || got.String() != want {
			t.Errorf("Parse(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for in, problem := range map[string]string{
		"":                             "it is empty",
		".":                            "it is empty",
		"*":                            "every host",
		"*.":                           "whole first label",
		"*external.com":                "whole first label",
		"a.*.com":                      "whole first label",
		"*.*.com":                      "whole first label",
		"*-api.external.com":           "whole first label",
		"external..com":                "empty label",
		".external.com":                "empty label",
		"external.com..":               "empty label",
		"-a.com":                       "hyphen",
		"a-.com":                       "hyphen",
		"a_b.com":                      "'_'",
		"a b.com":                      "' '",
		"münchen.de":                   "not ASCII",
		"10.0.0.1":                     "IP address",
		"::1":                          "IP address",
		"[::1]":                        "IP address",
		"10.0.0.0/8":                   `"/"`,
		"10.0.0":                       "is a number",
		"external.com:443":             `"external.com"`,
		"https://external.com":         "URL",
		label64 + ".com":               "64 characters",
		long + strings.Repeat("b", 63): "255 characters",
	} {
		got, err := Parse(in)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), problem) || e.Fix == "" {
			t.Errorf("Parse(%q) = %q, %v, want an error about %q", in, got, err, problem)
		}
	}
	if n, err := ParsePattern("*"); n != Any || err != nil {
		t.Errorf("ParsePattern(*) = %q, %v", n, err)
	}
	if n, err := ParseExact("*.com"); err == nil {
		t.Errorf("ParseExact(*.com) = %q", n)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, host Name
		want          bool
	}{
		{"a.com", "a.com", true}, {"a.com", "b.com", false}, {"a.com", "*.a.com", false},
		{"*.a.com", "x.a.com", true}, {"*.a.com", "x.y.a.com", true}, {"*.a.com", "a.com", false},
		{"*.a.com", "xa.com", false}, {"*.a.com", "*.a.com", true}, {"*.com", "*.a.com", true},
		{"*.a.com", "*.com", false}, {Any, "a", true}, {Any, Any, true}, {"*.com", Any, false}, {Any, "", false},
	} {
		if got := Matches(c.pattern, c.host); got != c.want {
			t.Errorf("Matches(%q, %q) = %v", c.pattern, c.host, got)
		}
	}
	if !Overlap("*.com", "a.com") || !Overlap("a.com", "*.com") || Overlap("*.a.com", "*.b.com") {
		t.Error("Overlap is wrong")
	}
}

func TestCompare(t *testing.T) {
	want := []Name{"a.com", "b.a.com", "*.b.a.com", "*.a.com", "*.b.com", "*.com", Any}
	got := []Name{"*.com", Any, "*.b.com", "b.a.com", "*.b.a.com", "a.com", "*.a.com"}
	slices.SortFunc(got, Compare)
	if !slices.Equal(got, want) {
		t.Errorf("sorted %v, want %v", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a.com", "*.a.com", "*", "A.COM.", "a..b", "1.2.3.4", "ü.de", "[::1]:80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParsePattern(s)
		if Partial(s) && err == nil {
			t.Fatalf("%q is a partial wildcard, and %q", s, n)
		}
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Problem == "" || e.Fix == "" {
				t.Fatalf("ParsePattern(%q): %v does not explain itself", s, err)
			}
			return
		}
		again, err := ParsePattern(string(n))
		if err != nil || again != n {
			t.Fatalf("ParsePattern(%q) = %q, but again %q, %v", s, n, again, err)
		}
		if len(n) > maxName || !Matches(n, n) || !Matches(Any, n) || Compare(n, n) != 0 {
			t.Fatalf("%q breaks the laws of names", n)
		}
	})
}

func TestPartial(t *testing.T) {
	for s, want := range map[string]bool{
		"*example.com": true, "*-api.example.com": true, "*web": true, "*": false, "*.example.com": false, "example.com": false, "*-": false,
		"*-.com": false, "a*.com": false, "**.com": false, "*a_b.com": false, "": false,
	} {
		if got := Partial(s); got != want {
			t.Errorf("Partial(%q) = %v", s, got)
		}
	}
}
