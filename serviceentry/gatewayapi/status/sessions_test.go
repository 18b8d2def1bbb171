package status_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestTwoKindsOfSessions: a route with sessions of its own is rejected while its Service keeps clients with their pods in another way, and tells which Service that is; one
// without is not.
func TestTwoKindsOfSessions(t *testing.T) {
	const rejected, accepted = "Accepted=False/UnsupportedValue ResolvedRefs=True/ResolvedRefs", "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs"
	sticky := strings.Replace(service, "spec: {", "spec: {sessionAffinity: ClientIP, ", 1)
	sessions := strings.Replace(routeText, "rules: [{", "rules: [{backendRefs: [{name: web, port: 80}]}, {sessionPersistence: {sessionName: sid}, ", 1)
	r := registry.New(settings())
	s, _ := apply(t, r, sessions, gateway, open, sticky)
	if got := routeSaid(t, s); got != rejected {
		t.Errorf("got %s\nwant %s", got, rejected)
	}
	got, _ := status.Route(s, routeKey)
	if message := got.Parents[0].Conditions[0].Message; !strings.Contains(message, "rules[1].sessionPersistence: Service shop/web has sessionAffinity: ClientIP") {
		t.Errorf("it is told %q", message)
	}
	for _, c := range []struct{ what, text, want string }{
		{"the Service stops", service, accepted},
		{"it begins again", sticky, rejected},
		{"the route stops", routeText, accepted},
		{"it begins again", sessions, rejected},
		{"it has another Service", strings.ReplaceAll(sessions, "name: web,", "name: other,"), strings.Replace(accepted, "True/ResolvedRefs", "False/BackendNotFound", 1)},
	} {
		var changed registry.Changed
		s, changed = apply(t, r, c.text)
		if got := routeSaid(t, s); got != c.want {
			t.Errorf("%s: got %s\nwant %s", c.what, got, c.want)
		}
		if !slices.Contains(changed.GatewayAPI, routeKey) {
			t.Errorf("%s: the route is not told", c.what)
		}
	}
}
