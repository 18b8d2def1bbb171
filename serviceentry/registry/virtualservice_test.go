package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// virtualYAML is a VirtualService "NS/NAME" for hosts, with further fields of spec.
func virtualYAML(id, hosts, spec string) string {
	ns, name, _ := strings.Cut(id, "/")
	return fmt.Sprintf("---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: %s, namespace: %s}\nspec:\n  hosts: [%s]\n  %s\n",
		name, ns, hosts, strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  "))
}

const (
	httpPort = "ports: [{number: 80, name: http, protocol: HTTP}]"
	toItself = "http: [{route: [{destination: {host: a.com}}]}]"
)

// leader names the VirtualService that leads a workload to a host; "" without one.
func (w world) leader(host, ns string, labels map[string]string) string {
	w.Helper()
	s := w.Snapshot()
	svc := s.Visible(host, ns, nil)
	if svc == nil {
		w.Fatalf("%s is not registered for %s", host, ns)
	}
	if v := s.Routes(svc, ns, s.Selecting(ns, labels)); v != nil {
		return v.Key.Namespace + "/" + v.Key.Name
	}
	return ""
}

// TestWhoseRoutesCount: the workload's own namespace's, then that of whoever registered the host, then the root
// namespace's, and nobody else's; the oldest of them; the exact host before patterns.
func TestWhoseRoutesCount(t *testing.T) {
	w := newWorld(t, entryYAML("shop/a", "a.com", httpPort), entryYAML("istio-system/r", "r.com", httpPort))
	check := func(what, host, ns, want string) {
		t.Helper()
		if got := w.leader(host, ns, nil); got != want {
			t.Errorf("%s: %s from %s is led by %q, want %q", what, host, ns, got, want)
		}
	}
	w.apply(virtualYAML("evil/v", "a.com, r.com", toItself+"\nexportTo: ['*']"))
	check("a stranger's", "a.com", "team-a", "")
	check("a stranger's", "r.com", "team-a", "")
	check("a stranger's", "a.com", "shop", "")
	check("one's own, for a host of others", "a.com", "evil", "evil/v")

	w.apply(virtualYAML("istio-system/v", "a.com, r.com", toItself))
	check("the root namespace's", "a.com", "team-a", "istio-system/v")
	w.apply(virtualYAML("shop/v", "'*.com'", toItself))
	check("a pattern of the host's namespace, and an exact host of the root's", "a.com", "team-a", "istio-system/v")
	w.apply(virtualYAML("shop/w", "A.com.", toItself))
	check("the host's namespace's", "a.com", "team-a", "shop/w")
	check("the host's namespace's, in it", "a.com", "shop", "shop/w")
	w.apply(virtualYAML("team-a/v", "a.com", toItself))
	check("the workload's", "a.com", "team-a", "team-a/v")
	check("the workload's, elsewhere", "a.com", "team-b", "shop/w")
	w.apply(virtualYAML("shop/w", "a.com", toItself+"\nexportTo: [team-b]"))
	check("not exported", "a.com", "team-c", "istio-system/v")
	check("exported by name", "a.com", "team-b", "shop/w")
	w.apply(virtualYAML("team-a/v", "a.com", toItself+"\ngateways: [g]"))
	check("for a gateway only", "a.com", "team-a", "istio-system/v")
	w.apply(strings.Replace(virtualYAML("shop/b", "a.com", toItself), "metadata: {", "metadata: {creationTimestamp: 2020-01-01T00:00:00Z, ", 1))
	check("of two, the one that has an age", "a.com", "team-b", "shop/w")
}

// TestOldestRoutesCount: of two VirtualServices of a namespace the older one leads, alone.
func TestOldestRoutesCount(t *testing.T) {
	at := func(id, date, spec string) string {
		return strings.Replace(virtualYAML(id, "a.com", spec), "metadata: {", "metadata: {creationTimestamp: "+date+", ", 1)
	}
	w := newWorld(t, entryYAML("shop/a", "a.com", httpPort), at("shop/a", "2022-01-01T00:00:00Z", toItself), at("shop/z", "2021-01-01T00:00:00Z", toItself))
	if got := w.leader("a.com", "x", nil); got != "shop/z" {
		t.Errorf("%s leads, and is not the oldest", got)
	}
	w.remove(at("shop/z", "2021-01-01T00:00:00Z", toItself))
	if got := w.leader("a.com", "x", nil); got != "shop/a" {
		t.Errorf("%q leads", got)
	}
}

// TestSourcesOfRoutes: sourceLabels and sourceNamespace say for whom a match is; nobody else is led anywhere, and who is has a
// class, and a view, of its own.
func TestSourcesOfRoutes(t *testing.T) {
	const routes = "http: [{match: [{sourceLabels: {app: web, v: '1'}}, {sourceNamespace: team-b}], route: [{destination: {host: a.com}}]}]"
	w := newWorld(t, entryYAML("shop/a", "a.com", httpPort))
	changed := w.apply(virtualYAML("shop/v", "a.com", routes))
	if !changed.Views || !slices.Equal(changed.Hosts, []string{"a.com"}) {
		t.Errorf("%+v changed", changed)
	}
	web := map[string]string{"app": "web", "v": "1", "other": "x"}
	for _, c := range []struct {
		ns     string
		labels map[string]string
		want   string
	}{{"team-a", web, "shop/v"}, {"team-a", nil, ""}, {"team-a", map[string]string{"app": "web"}, ""}, {"team-b", nil, "shop/v"}} {
		if got := w.leader("a.com", c.ns, c.labels); got != c.want {
			t.Errorf("%v in %s is led by %q, want %q", c.labels, c.ns, got, c.want)
		}
	}
	s := w.Snapshot()
	if s.Selecting("team-a", web) == s.Selecting("team-a", nil) || s.View("team-b") == "" || s.View("team-a") != "" {
		t.Errorf("classes: %q, %q; views %q, %q", s.Selecting("team-a", web), s.Selecting("team-a", nil), s.View("team-b"), s.View("team-a"))
	}
	if w.remove(virtualYAML("shop/v", "a.com", routes)); w.Snapshot().Selecting("team-a", web) != "" || w.Snapshot().View("team-b") != "" {
		t.Error("it left something behind")
	}
	w.apply(virtualYAML("shop/v", "a.com", routes+"\nexportTo: [.]"))
	if got := w.Snapshot().Selecting("team-a", web); got != "" {
		t.Errorf("%q selects a workload that cannot follow it", got)
	}
}

// TestExportedByNameIsSeen: whom a VirtualService, or a rule, is exported to by name has a view of its own.
func TestExportedByNameIsSeen(t *testing.T) {
	w := newWorld(t, entryYAML("shop/a", "a.com", httpPort), virtualYAML("shop/v", "a.com", toItself+"\nexportTo: [team-a]"))
	if w.Snapshot().View("team-a") == "" {
		t.Error("the VirtualService is for team-a, which sees what everybody sees")
	}
	w = newWorld(t, entryYAML("shop/a", "a.com", httpPort), `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: r, namespace: shop}
spec: {host: a.com, exportTo: [team-a], trafficPolicy: {tls: {mode: SIMPLE}}}
`)
	s := w.Snapshot()
	svc := s.Visible("a.com", "team-a", nil)
	if s.Rule(svc, "team-a", "") != s.Rule(svc, s.View("team-a"), "") {
		t.Error("the rule is for team-a, which sees what everybody sees")
	}
}

// TestDelegates: a delegate's routes stand where its root has them, if it is exported to the root's namespace.
func TestDelegates(t *testing.T) {
	root := virtualYAML("shop/root", "a.com", "http: [{match: [{uri: {prefix: /x}}], delegate: {name: d, namespace: team}}, {name: last, route: [{destination: {host: a.com}}]}]")
	delegate := func(spec string) string {
		return "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: d, namespace: team}\nspec: " + spec
	}
	w := newWorld(t, entryYAML("shop/a", "a.com", httpPort), entryYAML("shop/b", "b.team.svc.cluster.local", httpPort), root)
	routes := func() string {
		w.Helper()
		s := w.Snapshot()
		var out []string
		for _, h := range s.Routes(s.Visible("a.com", "shop", nil), "shop", "").HTTP {
			uri := ""
			if h.Matches[0].URI != nil {
				uri = h.Matches[0].URI.Value
			}
			out = append(out, h.From.Name+" "+uri+" "+h.Destinations[0].Host)
		}
		return strings.Join(out, "; ")
	}
	if got, want := routes(), "root  a.com"; got != want {
		t.Errorf("without its delegate: %s", got)
	}
	const both = "{http: [{match: [{uri: {prefix: /x/y}}, {uri: {prefix: /z}}], route: [{destination: {host: b}}]}, {match: [{uri: {prefix: /x/y}}], route: [{destination: {host: b}}]}]}"
	changed := w.apply(delegate(both))
	if !slices.Equal(changed.Hosts, []string{"a.com"}) {
		t.Errorf("the delegate changed %v", changed.Hosts)
	}
	if got, want := routes(), "d /x/y b.team.svc.cluster.local; root  a.com"; got != want {
		t.Errorf("with it: %s", got)
	}
	w.apply(delegate(strings.Replace(both, "{http", "{exportTo: [.], http", 1)))
	if got, want := routes(), "root  a.com"; got != want {
		t.Errorf("not exported: %s", got)
	}
	w.apply(delegate(strings.Replace(both, "{http", "{exportTo: [shop], http", 1)))
	if got := routes(); got == "root  a.com" {
		t.Error("exported by name: it is not there")
	}
	if changed := w.remove(delegate(both)); !slices.Equal(changed.Hosts, []string{"a.com"}) || routes() != "root  a.com" {
		t.Errorf("removed: %s, %v changed", routes(), changed.Hosts)
	}
}

// TestRoutesFollowTheirEnds: a host whose routes lead to another is touched with that one, and with the Gateway that
// it is for.
func TestRoutesFollowTheirEnds(t *testing.T) {
	w := newWorld(t, entryYAML("shop/a", "a.com, x.a.com", httpPort), gatewayService,
		virtualYAML("shop/v", "'*.a.com'", "gateways: [mesh, g]\nhttp: [{route: [{destination: {host: b.com}}], mirror: {host: c.com}}]"),
		virtualYAML("shop/t", "a.com", "tcp: [{route: [{destination: {host: d.com}}]}]"))
	for name, want := range map[string]string{"b.com": "b.com x.a.com", "c.com": "c.com x.a.com", "d.com": "a.com d.com", "e.com": "e.com"} {
		if changed := w.apply(entryYAML("shop/"+name[:1]+"2", name, httpPort)); strings.Join(changed.Hosts, " ") != want {
			t.Errorf("%s: %v changed, want %s", name, changed.Hosts, want)
		}
	}
	gateway := "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: g, namespace: shop}\nspec: {selector: {istio: egressgateway}, servers: [{port: {number: 80, name: h, protocol: HTTP}, hosts: ['shop/*.a.com']}, {port: {number: 443, name: t, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: [x.a.com]}]}"
	if changed := w.apply(gateway); !slices.Equal(changed.Hosts, []string{"b.com", "c.com", "x.a.com"}) {
		t.Errorf("its Gateway: %v changed", changed.Hosts)
	}
	s := w.Snapshot()
	key := config.Key{Kind: config.KindGateway, Namespace: "shop", Name: "g"}
	g := s.Gateway(key)
	if list := s.GatewaysSelecting(gatewayRef); !slices.Equal(list, []*registry.Gateway{g}) {
		t.Errorf("%v select the egress gateway", list)
	}
	if http, tls, other := g.Ports("shop", "x.a.com", false), g.Ports("shop", "x.a.com", true), g.Ports("other", "x.a.com", false); !slices.Equal(http, []uint32{80}) || !slices.Equal(tls, []uint32{443}) || other != nil {
		t.Errorf("ports %v, %v, %v", http, tls, other)
	}
	if list := s.GatewayRoutes(s.Visible("x.a.com", "shop", nil), "", key); len(list) != 1 || list[0].Key.Name != "v" {
		t.Errorf("%v lead from the Gateway", list)
	}
	if changed := w.apply(strings.Replace(gatewayService, "istio: egressgateway", "istio: other", 1)); !slices.Contains(changed.Hosts, "x.a.com") {
		t.Errorf("the Service that it selects: %v changed", changed.Hosts)
	}
	if list := w.Snapshot().GatewaysSelecting(gatewayRef); list != nil {
		t.Errorf("%v select it still", list)
	}
	if changed := w.remove(gateway); !slices.Equal(changed.Hosts, []string{"b.com", "c.com", "x.a.com"}) {
		t.Errorf("without its Gateway: %v changed", changed.Hosts)
	}
}

// TestOneVirtualServiceTouchesItsHosts, and nothing else.
func TestOneVirtualServiceTouchesItsHosts(t *testing.T) {
	w := newWorld(t, entryYAML("shop/a", "a.com, b.com, x.c.com, y.c.com, c.com", httpPort))
	v := virtualYAML("shop/v", "a.com, '*.c.com', unregistered.com", toItself)
	if changed := w.apply(v); !slices.Equal(changed.Hosts, []string{"a.com", "x.c.com", "y.c.com"}) {
		t.Errorf("%v changed", changed.Hosts)
	}
	if changed := w.apply(v); !changed.Empty() {
		t.Errorf("again: %+v changed", changed)
	}
	if changed := w.apply(virtualYAML("shop/v", "b.com", toItself)); !slices.Equal(changed.Hosts, []string{"a.com", "b.com", "x.c.com", "y.c.com"}) {
		t.Errorf("moved: %v changed", changed.Hosts)
	}
	if got := w.leader("b.com", "x", nil); got != "shop/v" {
		t.Errorf("%q leads", got)
	}
	var _ route.Source = registry.SelectorKey("")
}
