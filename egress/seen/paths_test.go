package seen_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

func learned(paths ...string) *seen.Paths {
	p := &seen.Paths{}
	for _, path := range paths {
		p.Add(path)
	}
	return p
}

func patterns(p *seen.Paths, most int) (out []string) {
	for _, t := range p.Templates(most) {
		out = append(out, t.Pattern)
	}
	return out
}

func TestTemplates(t *testing.T) {
	var users, files []string
	for i := range 40 {
		users = append(users, "/users/name"+string(rune('a'+i%26))+string(rune('a'+i/26))+"/orders")
		files = append(files, fmt.Sprintf("/%c/%c/x", 'a'+i%5, 'a'+i/5))
	}
	for name, tt := range map[string]struct {
		paths []string
		most  int
		want  []string
	}{
		"as written":            {[]string{"/", "/a/b", "/a/b/", ""}, 64, []string{"/", "/a/b", "/a/b/"}},
		"numbers":               {[]string{"/users/17/orders/2026-05-01", "/users/me"}, 64, []string{"/users/*/orders/*", "/users/me"}},
		"uuids, hashes, tokens": {[]string{"/0b2d6a52-1c7e-4b53-9f3e-0d1f6f6c2a11", "/blob/deadbeef01", "/t/eyJhbGciOiJIUzI1NiJ9.e30.x1"}, 64, []string{"/*", "/blob/*", "/t/*"}},
		"words are not":         {[]string{"/v1/facade", "/deadbeef"}, 64, []string{"/deadbeef", "/v1/facade"}},
		"many":                  {users, 64, []string{"/users/*/orders"}},
		"too many":              {files, 4, nil},
		"what no rule can say":  {[]string{"/a*b/c"}, 64, []string{"/*/c"}},
		"unclear":               {[]string{"/a", "/a//b"}, 64, nil},
		"no escape":             {[]string{"/a", "/%zz/c"}, 64, nil},
		"raw bytes":             {[]string{"/a", "/ü"}, 64, nil},
		"cut":                   {[]string{"/a/b/cde…", "/x"}, 64, []string{"/a/b/**", "/x"}},
		"deep":                  {[]string{strings.Repeat("/a", 40)}, 64, []string{strings.Repeat("/a", 16) + "/**"}},
		"too long":              {[]string{strings.Repeat("/"+strings.Repeat("a", 127), 12)}, 64, []string{strings.Repeat("/"+strings.Repeat("a", 127), 7) + "/**"}},
	} {
		if got := patterns(learned(tt.paths...), tt.most); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestTemplatesCoverAll: each path that was learned is let through by a rule with the templates, whatever the order in which they came, and
// by however many.
func TestTemplatesCoverAll(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var paths []string
		for range 1 + r.IntN(200) {
			var b strings.Builder
			for range 1 + r.IntN(6) {
				b.WriteString("/" + []string{"a", "b", fmt.Sprint(r.IntN(1000)), fmt.Sprintf("w%c%c", 'a'+r.IntN(26), 'a'+r.IntN(26)), "x*", "%zz", "é", strings.Repeat("k", r.IntN(200))}[r.IntN(8)])
			}
			path := b.String()
			for strings.Contains(path, "//") {
				path = strings.ReplaceAll(path, "//", "/")
			}
			paths = append(paths, path)
		}
		most := 1 + r.IntN(64)
		one := learned(paths...)
		got := one.Templates(most)
		r.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		if other := learned(paths...); !reflect.DeepEqual(other.Templates(most), got) {
			t.Fatalf("seed %d: in another order it is %q, not %q", seed, patterns(other, most), patterns(one, most))
		}
		half := learned(paths[:len(paths)/2]...)
		half.Merge(learned(paths[len(paths)/2:]...))
		if !reflect.DeepEqual(half.Templates(most), got) {
			t.Fatalf("seed %d: merged it is %q, not %q", seed, patterns(half, most), patterns(one, most))
		}
		if len(got) > most {
			t.Fatalf("seed %d: %d templates, of %d", seed, len(got), most)
		}
		if got == nil {
			continue
		}
		rule := ruleWith(patterns(one, most))
		for _, path := range paths {
			if !rule.Matches(&egresspolicy.Attempt{Protocol: egresspolicy.HTTP, Path: path}) {
				t.Fatalf("seed %d: %q is not covered by %q", seed, path, patterns(one, most))
			}
		}
		for _, x := range got {
			if !ruleWith([]string{x.Pattern}).Matches(&egresspolicy.Attempt{Protocol: egresspolicy.HTTP, Path: x.Example}) {
				t.Fatalf("seed %d: %q is no example of %q", seed, x.Example, x.Pattern)
			}
		}
	}
}

func ruleWith(paths []string) *egresspolicy.Rule {
	p := egresspolicy.FromSpec(&config.Object{}, &v1alpha1.EgressPolicy{Rules: []*v1alpha1.Rule{{Paths: paths, Action: v1alpha1.Action_Allow}}})
	return &p.Rules[0]
}

// TestPathsAreBounded: whoever asks for random paths fills no memory.
func TestPathsAreBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	p := &seen.Paths{}
	for range 50_000 {
		path := ""
		for range 12 {
			path += fmt.Sprintf("/%c", 'a'+r.IntN(10))
		}
		p.Add(path)
	}
	if got := p.Templates(64); got != nil {
		t.Errorf("%q", got)
	}
}
