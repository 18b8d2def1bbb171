package status_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// setText is a ListenerSet of namespace shop, of a day.
func setText(name string, day int, listeners string) string {
	return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: %s, namespace: shop, creationTimestamp: '2026-01-%02dT00:00:00Z'}\nspec: {parentRef: {name: public, namespace: infra}, listeners: [%s]}\n", name, day, listeners)
}

// TestListenerSet: who is let in, who was there before, and what is told of it.
func TestListenerSet(t *testing.T) {
	letting := func(from string) string {
		return strings.Replace(gateway, "  listeners:", "  allowedListeners: {namespaces: {from: "+from+"}}\n  listeners:", 1)
	}
	const (
		all      = "All"
		accepted = "Accepted=True/Accepted Programmed=True/Programmed"
		none     = "Accepted=False/ListenersNotValid Programmed=False/ListenersNotValid"
		own      = "{name: own, port: 80, protocol: HTTP, hostname: shop.example.com}"
		taken    = "{name: taken, port: 80, protocol: HTTP, hostname: '*.example.com'}"
		other    = "{name: other, port: 80, protocol: TCP}"
	)
	for _, c := range []struct {
		what, from, sets, want string
		attached               int32
	}{
		{"let in", all, setText("s", 1, own), accepted, 1},
		{"of another namespace", "Same", setText("s", 1, own), "Accepted=False/NotAllowed Programmed=False/NotAllowed", 0},
		{"by labels", "Selector, selector: {matchLabels: {open: 'yes'}}", setText("s", 1, own), accepted, 1},
		{"without a word", "None", setText("s", 1, own), "Accepted=False/NotAllowed Programmed=False/NotAllowed", 0},
		{"the Gateway's host", all, setText("s", 1, taken), none, 0},
		{"the Gateway's port", all, setText("s", 1, other), none, 0},
		{"one of two", all, setText("s", 1, own+", "+taken), "Accepted=True/ListenersNotValid Programmed=True/Programmed", 1},
		{"an older set's", all, setText("s", 2, own) + "---\n" + setText("z", 1, own), none, 1},
		{"a younger set's", all, setText("s", 2, own) + "---\n" + setText("a", 3, own), accepted, 1},
	} {
		r := registry.New(settings())
		s, _ := apply(t, r, service, letting(c.from), open, c.sets)
		got, _ := status.ListenerSet(s, config.Key{Kind: config.KindListenerSet, Namespace: "shop", Name: "s"})
		if text := said(got.Conditions); text != c.want {
			t.Errorf("%s: %s, want %s", c.what, text, c.want)
		}
		if g, _ := status.Gateway(s, gatewayKey); g.AttachedListenerSets == nil || *g.AttachedListenerSets != c.attached || len(g.Listeners) != 4 {
			t.Errorf("%s: the Gateway says %v sets, %d listeners", c.what, g.AttachedListenerSets, len(g.Listeners))
		}
	}
}

// TestRouteOfListenerSet: a route counts at the listeners of the set that it names, and the set says how many do.
func TestRouteOfListenerSet(t *testing.T) {
	letting := strings.Replace(gateway, "  listeners:", "  allowedListeners: {namespaces: {from: All}}\n  listeners:", 1)
	set := setText("s", 1, "{name: own, port: 80, protocol: HTTP, hostname: a.example.com}")
	for parent, want := range map[string]string{
		"{name: s, kind: ListenerSet, sectionName: own}":             "Accepted=True/Accepted",
		"{name: s, kind: ListenerSet, sectionName: http}":            "Accepted=False/NoMatchingParent",
		"{name: public, namespace: infra, sectionName: own}":         "Accepted=False/NoMatchingParent",
		"{name: public, namespace: infra, sectionName: http}":        "Accepted=True/Accepted",
		"{name: s, kind: ListenerSet, sectionName: own, port: 8080}": "Accepted=False/NoMatchingParent",
	} {
		route := strings.Replace(routeText, "{name: public, namespace: infra, sectionName: http}", parent, 1)
		s, _ := apply(t, registry.New(settings()), service, letting, open, route, set)
		got, _ := status.Route(s, routeKey)
		if len(got.Parents) != 1 || said(got.Parents[0].Conditions[:1]) != want {
			t.Errorf("%s: %+v, want %s", parent, got.Parents, want)
		}
		told, _ := status.ListenerSet(s, config.Key{Kind: config.KindListenerSet, Namespace: "shop", Name: "s"})
		if n := told.Listeners[0].AttachedRoutes; (n == 1) != (strings.Contains(parent, "ListenerSet") && strings.HasSuffix(want, "/Accepted")) {
			t.Errorf("%s: the set says %d routes", parent, n)
		}
	}
}

// TestManyListenerSets: whoever may write ListenerSets may write many, each with routes. One more costs itself.
func TestManyListenerSets(t *testing.T) {
	cost := func(n int) float64 {
		var text strings.Builder
		fmt.Fprintf(&text, "%s---\n%s---\n", service, strings.Replace(gateway, "  listeners:", "  allowedListeners: {namespaces: {from: All}}\n  listeners:", 1))
		for i := range n {
			text.WriteString(setText(fmt.Sprintf("s-%d", i), 1, fmt.Sprintf("{name: own, port: 80, protocol: HTTP, hostname: h-%d.example.org}", i)) + "---\n")
			route := strings.Replace(routeText, "{name: public, namespace: infra, sectionName: http}", fmt.Sprintf("{name: s-%d, kind: ListenerSet}", i), 1)
			text.WriteString(strings.Replace(route, "name: "+routeKey.Name, fmt.Sprintf("name: r-%d", i), 1) + "---\n")
		}
		r, day := registry.New(settings()), 1
		apply(t, r, text.String())
		return testing.AllocsPerRun(1, func() {
			day++
			s, changed := apply(t, r, setText("last", day, "{name: own, port: 80, protocol: HTTP, hostname: last.example.org}"))
			for _, key := range changed.GatewayAPI {
				status.Gateway(s, key)
				status.ListenerSet(s, key)
				status.Route(s, key)
			}
			if len(changed.GatewayAPI) > 2 { // the set, and the Gateway, which counts them
				t.Errorf("with %d sets and routes %d objects are told of: %v", n, len(changed.GatewayAPI), changed.GatewayAPI)
			}
		})
	}
	if few, many := cost(10), cost(500); many > 3*few {
		t.Errorf("with fifty times as many sets and routes a change takes %.0f allocations, and not %.0f", many, few)
	}
}

// TestClients: what is told of listeners that ask clients for certificates.
func TestClients(t *testing.T) {
	https := strings.Replace(gateway, "name: cert, namespace: keys", "name: cert", 1)
	for asks, want := range map[string]string{
		"{default: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: none}]}}}":                               "False/NoValidCACertificate InvalidCACertificateRef",
		"{default: {validation: {caCertificateRefs: [{group: '', kind: Service, name: none}]}}}":                                 "False/NoValidCACertificate InvalidCACertificateKind",
		"{default: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: none, namespace: other}]}}}":             "False/NoValidCACertificate RefNotPermitted",
		"{default: {}, perPort: [{port: 80, tls: {validation: {caCertificateRefs: [{group: '', kind: Service, name: none}]}}}]}": "True/Accepted InvalidCertificateRef",
	} {
		s, _ := apply(t, registry.New(settings()), strings.Replace(https, "  listeners:", "  tls: {frontend: "+asks+"}\n  listeners:", 1))
		got, _ := status.Gateway(s, gatewayKey)
		l := got.Listeners[3]
		if text := string(l.Conditions[0].Status) + "/" + l.Conditions[0].Reason + " " + l.Conditions[2].Reason; text != want {
			t.Errorf("%s: %s, want %s", asks, text, want)
		}
		if first := got.Listeners[0].Conditions[0]; first.Status != "True" {
			t.Errorf("%s: a listener of plain requests is closed, too: %s", asks, first.Message)
		}
	}
}
