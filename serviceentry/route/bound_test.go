package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// TestDelegatesAreBounded: what delegates bring is bounded, however few and small the objects are; those count that fit in, and the object's own routes stay.
func TestDelegatesAreBounded(t *testing.T) {
	const own = "{match: [{uri: {exact: /own}}], route: [{destination: {host: own.com}}]}"
	var prefixes, routes, delegating []string
	for i := range 400 {
		prefixes = append(prefixes, fmt.Sprintf("{headers: {x: {exact: \"%d\"}}}", i))
		routes = append(routes, fmt.Sprintf("{match: [{uri: {prefix: /%d}}, {uri: {prefix: /x%d}}], route: [{destination: {host: b.com}}]}", i, i))
		delegating = append(delegating, "{delegate: {name: d}}")
	}
	for _, c := range []struct {
		name, http string
		times      int // how often the delegate counts
		beyond     bool
	}{
		{"once", "{delegate: {name: d}}, " + own, 1, false},
		{"each match with each", "{match: [" + strings.Join(prefixes, ", ") + "], delegate: {name: d}}, " + own, 0, true},
		{"many times", strings.Join(delegating, ", ") + ", " + own, route.MostDelegated / 800, true},
		{"what fits beside it", "{match: [" + strings.Join(prefixes, ", ") + "], delegate: {name: d}}, {delegate: {name: d}}, " + own, 1, true},
	} {
		root := parse(t, "{hosts: [a.com], http: ["+c.http+"]}")
		of := parse(t, "{http: ["+strings.Join(routes, ", ")+"]}")
		asked := 0
		find := func(config.Key) (route.Routes, bool) {
			asked++
			return of, true
		}
		out := root.Resolve(1, find)
		if want := c.times*len(routes) + 1; len(out.HTTP) != want || out.HTTP[len(out.HTTP)-1].Destinations[0].Host != "own.com" {
			t.Errorf("%s: %d routes, want %d", c.name, len(out.HTTP), want)
		}
		if asked > c.times+1 {
			t.Errorf("%s: delegates are read %d times", c.name, asked)
		}
		if _, got := root.TooManyDelegated(1, find); len(got) > 0 != c.beyond {
			t.Errorf("%s: beyond is %v", c.name, got)
		}
	}
}

// TestDelegatesHaveTheirShare: what a namespace's delegates bring leaves no room for more of its own, and takes none of another's; what others leave may be had.
func TestDelegatesHaveTheirShare(t *testing.T) {
	delegate := func(ns string, matches int) route.Routes {
		var list []string
		for i := range matches {
			list = append(list, fmt.Sprintf("{uri: {prefix: /%s/%d}}", ns, i))
		}
		return parse(t, "{http: [{match: ["+strings.Join(list, ", ")+"], route: [{destination: {host: "+ns+".com}}]}]}")
	}
	const root = "{hosts: [a.com], http: [{match: [{uri: {prefix: /b/}}], delegate: {name: d, namespace: b}}, {match: [{uri: {prefix: /a/}}], delegate: {name: d, namespace: a}}, {route: [{destination: {host: own.com}}]}]}"
	for _, c := range []struct {
		b, a       int
		want, left string // whose routes count, and whose are left out
	}{
		{4096, 1, "a own", "b"}, // 4096 is all that there is for 64 hosts
		{4095, 1, "b a own", ""},
		{4096, 2048, "a own", "b"},
		{2048, 2048, "b a own", ""},
		{2049, 2048, "a own", "b"},
		{100, 3996, "b a own", ""},
		{100, 3997, "b own", "a"},
		{4097, 4097, "own", "b a"},
	} {
		of := map[string]route.Routes{"a": delegate("a", c.a), "b": delegate("b", c.b)}
		find := func(key config.Key) (route.Routes, bool) { return of[key.Namespace], true }
		var got, left []string
		for _, h := range parse(t, root).Resolve(64, find).HTTP {
			got = append(got, strings.TrimSuffix(h.Destinations[0].Host, ".com"))
		}
		_, beyond := parse(t, root).TooManyDelegated(64, find)
		for _, key := range beyond {
			left = append(left, key.Namespace)
		}
		if strings.Join(got, " ") != c.want || strings.Join(left, " ") != c.left {
			t.Errorf("%d of b's, %d of a's: %q count, want %q; %q are left out, want %q", c.b, c.a, got, c.want, left, c.left)
		}
	}
}

// TestDelegatingByNothing: a route whose matches cannot hold delegates nothing, and not all there is.
func TestDelegatingByNothing(t *testing.T) {
	root := parse(t, `{hosts: [a.com], http: [{match: [{uri: {regex: "("}}], delegate: {name: d}}]}`)
	of := parse(t, `{http: [{route: [{destination: {host: b.com}}]}]}`)
	if out := root.Resolve(1, func(config.Key) (route.Routes, bool) { return of, true }); len(out.HTTP) > 0 {
		t.Errorf("%+v", out.HTTP)
	}
}
