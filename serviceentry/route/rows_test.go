package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// TestDelegatedRowsAreBounded: what delegates bring is bounded with the hosts that it is told for, and the gateways.
func TestDelegatedRowsAreBounded(t *testing.T) {
	var matches []string
	for i := range 1000 {
		matches = append(matches, fmt.Sprintf("{uri: {prefix: /%d}}", i))
	}
	of := parse(t, "{http: [{match: ["+strings.Join(matches, ", ")+"], route: [{destination: {host: b.com}}]}]}")
	find := func(config.Key) (route.Routes, bool) { return of, true }
	for _, c := range []struct {
		hosts    int
		gateways string
		rows     int
	}{
		{1, "mesh", 1001}, {262, "mesh", 1001}, {263, "mesh", 1}, {4096, "mesh", 1}, {131, "mesh, g", 2002}, {132, "mesh, g", 2},
	} {
		root := parse(t, "{hosts: [a.com], gateways: ["+c.gateways+"], http: [{delegate: {name: d}}, {route: [{destination: {host: own.com}}]}]}")
		out := root.Resolve(c.hosts, find)
		if got := out.Rows(); got != c.rows {
			t.Errorf("%+v: %d rows", c, got)
		}
		if got := out.Rows() * c.hosts; got > route.MostRows+c.hosts*2 {
			t.Errorf("%+v: %d rows for all hosts", c, got)
		}
	}
}
