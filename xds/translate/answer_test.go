package translate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
)

// TestQuestionsAreAnswered: in no row of any golden does a question about a connection get to a route that takes requests
// somewhere: before each such route there is an answer that asks for no more than the route does.
func TestQuestionsAreAnswered(t *testing.T) {
	rows := 0
	for name, c := range cases(t) {
		if c.node.Forward != "" || c.node.IsWaypoint() {
			continue // nobody asks it: to a waypoint, connections say themselves what they are for
		}
		t.Run(name, func(t *testing.T) {
			v := c.view()
			check := func(vh *routev3.VirtualHost) {
				if table, _, _ := strings.Cut(vh.Name, "/"); translate.Classify(c.snapshot(), c.node).Kind == translate.Ingress && strings.HasPrefix(table, "http") {
					return // requests only: what is asked about has tables of its own
				}
				for i, r := range vh.Routes {
					if r.GetRoute() == nil || envoy.IsAnswer(r) || r.Match.GetConnectMatcher() != nil {
						continue
					}
					rows++
					if !slices.ContainsFunc(vh.Routes[:i], func(a *routev3.Route) bool { return answersAllThat(a, r) }) {
						t.Errorf("row %s: a question may get to route %d, %v", vh.Name, i, r)
					}
				}
			}
			each(t, v, resource.VirtualHost, check)
			each(t, v, resource.Route, func(table *routev3.RouteConfiguration) {
				for _, vh := range table.VirtualHosts {
					check(vh)
				}
			})
		})
	}
	if rows == 0 {
		t.Error("no golden has a route for requests")
	}
}

// answersAllThat says whether an answer matches every question that a route would match.
func answersAllThat(a, r *routev3.Route) bool {
	if a.GetDirectResponse() == nil || !envoy.IsAnswer(a) {
		return false
	}
	for _, h := range a.Match.Headers {
		if !slices.ContainsFunc(r.Match.Headers, func(o *routev3.HeaderMatcher) bool { return proto.Equal(h, o) }) {
			return false
		}
	}
	for _, f := range a.Match.FilterState {
		if f.Key == "sallyport.question" && f.GetStringMatch().GetContains() != "" {
			continue // every question has it
		}
		found := false
		for _, o := range r.Match.FilterState {
			found = found || proto.Equal(f, o)
		}
		if !found {
			return false
		}
	}
	return true
}
