package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// TestDelegatesAreBounded: what delegates bring is bounded, however few and small the objects are; the first count, and the object's own routes stay.
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
		{"beyond comes nothing", "{match: [" + strings.Join(prefixes, ", ") + "], delegate: {name: d}}, {delegate: {name: d}}, " + own, 0, true},
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
		if _, got := root.TooManyDelegated(1, find); got != c.beyond {
			t.Errorf("%s: beyond is %v", c.name, got)
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
