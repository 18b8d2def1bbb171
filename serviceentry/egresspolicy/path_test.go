package egresspolicy

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// TestPathRegex: what a rule's path means, and what it does not.
func TestPathRegex(t *testing.T) {
	for _, c := range []struct {
		pattern, path  string
		allows, denies bool
	}{
		{"/api", "/api", true, true},
		{"/api", "/api/", false, true},
		{"/api", "/API", false, true},
		{"/api", "/apix", false, false},
		{"/api/", "/api", false, true},
		{"/api/**", "/api", true, true},
		{"/api/**", "/api/x/y", true, true},
		{"/api/**", "/apix", false, false},
		{"/api/*", "/api/x", true, true},
		{"/api/*", "/api/", false, false},
		{"/api/*", "/api/x/y", false, false},
		{"/**/x", "/x", true, true},
		{"/**/x", "/a/b/x", true, true},
		{"/**/x", "/ax", false, false},
		{"/api/**/y", "/api/y", true, true},
		{"/api/**/y", "/api/a/y", true, true},
		{"/b*", "/bcd", true, true},
		{"/b*", "/b/c", false, false},
		{"/a.b", "/axb", false, false},
		{"/a!b", "/a%21b", false, true},
		{"/a%3Ab", "/a:b", false, true},
		{"/café", "/caf%C3%A9", false, true},
		{"/caf%C3%A9", "/caf%c3%a9", false, true},
		// nothing in a query is a path's
		{"/**/x", "/z?/x", false, false},
		{"/api/*/y", "/api/?/y", false, false},
		{"/api/**", "/z?/api/x", false, false},
	} {
		if got := Matches(PathRegex(c.pattern, false), c.path); got != c.allows {
			t.Errorf("%s allows %s: %v", c.pattern, c.path, got)
		}
		if got := Matches(PathRegex(c.pattern, true), c.path); got != c.denies {
			t.Errorf("%s denies %s: %v", c.pattern, c.path, got)
		}
	}
}

// TestIsNormal: a path that servers may take for another one is not, whatever its query.
func TestIsNormal(t *testing.T) {
	for p, want := range map[string]bool{
		"/": true, "/api/x": true, "/a%20b": true, "/caf%C3%A9": true, "/.well-known/x": true, "/...": true, "/a..b/": true, "/x?y=/../z": true, "/x?//": true, "/x?a;b=%2e": true,
		"": false, "x": false, "//": false, "/a//b": false, "/./a": false, "/a/.": false, "/a/..": false, "/a/../b": false, "/a/..?x": false, "/a/.?x": false, `/a\b`: false, "/a;v=1": false,
		"/%2e%2E/a": false, "/a%2fb": false, "/a%5cb": false, "/%61pi": false, "/a%2541": false, "/a%00": false, "/a%3bb": false, "/%5F": false, "/%7e": false, "/a//b?x": false,
		"/%e0%a0%80/%F0%9F%98%80": true, "/a?%zz%": true, "/\xc3\xa9": false, "/a%0a": false, "/%c0%af": false, "/%C1%9c": false, "/%e0%80%af": false, "/%f0%80%80%af": false,
		"/%u002f": false, "/a%": false, "/a%4": false, "/a%4?": false, "/a%g1": false, "/%7f": false,
		"*": false, "*/a": false, "?a": false, "a/b": false, "/a\tb": false, "/a\fb": false, "/a b": false, "/\x01": false, "/\x7f": false, "/\xff": false, "/a?\t\f \xff": true,
	} {
		if got := IsNormal(p); got != want {
			t.Errorf("%q: %v", p, got)
		}
	}
}

// FuzzDeniedPath holds that a Deny rule's path cannot be gone around: what a server that normalises takes for what the rule means is
// either what the rule means, or is abnormal, which denies.
func FuzzDeniedPath(f *testing.F) {
	for _, seed := range [][2]string{
		{"/admin", "/ADMIN/"}, {"/admin", "/x/../admin"}, {"/admin/**", "/%61dmin/x"}, {"/a/*", "/a//b"}, {"/admin", "/admin;x"}, {"/admin", `/x\..\admin`}, {"/admin", "/admin/.?x=1"}, {"/a!b", "/a%21b"},
		{"/admin", "/%2561dmin"}, {"/**/x", "/z?/x"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, asked string) {
		if !isPath(pattern) || !IsNormal(pattern) || strings.ContainsRune(pattern, '?') || !isPath(asked) {
			t.Skip()
		}
		asked, _, _ = strings.Cut(asked, "?")
		served, ok := normalised(asked)
		means, ok2 := normalised(pattern)
		if !ok || !ok2 || strings.Count(means, "*") != strings.Count(pattern, "*") || !Matches(PathRegex(means, false), served) {
			t.Skip()
		}
		if IsNormal(asked) && !Matches(PathRegex(pattern, true), asked) {
			t.Errorf("a server takes %q for %q, which %q denies, but that does not mean the first", asked, served, pattern)
		}
	})
}

// isPath says whether a proxy takes a request for it: letters, signs and digits of ASCII alone, from "/" on.
func isPath(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.ContainsFunc(p, func(c rune) bool { return c <= ' ' || c > '~' || c == '#' })
}

// normalised is what a server makes of a path that does all that servers do: it decodes what need not be encoded, takes "\" for "/", cuts
// parameters off, and resolves ".", ".." and empty segments.
func normalised(p string) (string, bool) {
	for range 3 {
		decoded, err := url.PathUnescape(p)
		if err != nil {
			return "", false
		}
		p = unreserved(p, decoded)
	}
	p = strings.ReplaceAll(p, `\`, "/")
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return path.Clean("/" + strings.Join(segments, "/")), true
}

// unreserved keeps escapes that no server decodes before it compares paths: of what is no letter, digit or sign that paths are made of.
func unreserved(p, decoded string) string {
	if strings.ContainsFunc(decoded, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return p
	}
	return decoded
}
