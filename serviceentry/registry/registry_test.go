package registry_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// world is a registry that YAML is applied to.
type world struct {
	*testing.T
	*registry.Registry
}

func newWorld(t *testing.T, texts ...string) world {
	t.Helper()
	cfg := mesh.Default()
	w := world{t, registry.New(&cfg)}
	for _, text := range texts {
		w.apply(text)
	}
	return w
}

func (w world) changes(text string) []config.Change {
	w.Helper()
	result := decode.File("world.yaml", []byte(text))
	for _, f := range result.Findings {
		w.Errorf("%s\n%s", f, text)
	}
	var out []config.Change
	for i := range result.Objects {
		out = append(out, config.Change{Key: result.Objects[i].Key, Object: &result.Objects[i]})
	}
	return out
}

func (w world) apply(text string) registry.Changed {
	w.Helper()
	_, changed := w.Apply(w.changes(text))
	return changed
}

func (w world) remove(text string) registry.Changed {
	w.Helper()
	changes := w.changes(text)
	for i := range changes {
		changes[i].Object = nil
	}
	_, changed := w.Apply(changes)
	return changed
}

// entryYAML is a ServiceEntry: "NS/NAME HOST[,HOST…]", further fields of spec, and annotations.
func entryYAML(id, hosts, spec string, annotations ...string) string {
	ns, name, _ := strings.Cut(id, "/")
	meta := "name: " + name + ", namespace: " + ns
	if len(annotations) > 0 {
		meta += ", annotations: {" + strings.Join(annotations, ", ") + "}"
	}
	if spec == "" {
		spec = "ports: [{number: 443, name: tls, protocol: TLS}]"
	}
	if !strings.Contains(spec, "resolution:") {
		spec += "\n  resolution: DNS"
	}
	return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {" + meta + "}\nspec:\n  location: MESH_EXTERNAL\n  hosts: [" + hosts + "]\n  " + spec + "\n---\n"
}

func sidecarYAML(id, selector string, hosts string) string {
	ns, name, _ := strings.Cut(id, "/")
	spec := "spec:\n  egress: [{hosts: [" + hosts + "]}]\n"
	if selector != "" {
		spec += "  workloadSelector: {labels: {" + selector + "}}\n"
	}
	return "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: " + name + ", namespace: " + ns + "}\n" + spec + "---\n"
}

func ruleYAML(id, host, spec string) string {
	ns, name, _ := strings.Cut(id, "/")
	return "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: " + name + ", namespace: " + ns + "}\nspec: {host: \"" + host + "\"" + spec + "}\n---\n"
}

// TestExit: by which gateway a host leaves.
func TestExit(t *testing.T) {
	const direct = "egress.sallyport.io/gateway: direct"
	namespace := func(annotation string) string {
		return "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, annotations: {" + annotation + "}}\n---\n"
	}
	inside := strings.Replace(entryYAML("default/a", "a.test", ""), "MESH_EXTERNAL", "MESH_INTERNAL", 1)
	for name, tt := range map[string]struct{ objects, want string }{
		"the mesh's":               {entryYAML("default/a", "a.test", ""), "istio-system/istio-egressgateway"},
		"none":                     {entryYAML("default/a", "a.test", "", direct), "/"},
		"another":                  {entryYAML("default/a", "a.test", "", "egress.sallyport.io/gateway: edge/out"), "edge/out"},
		"the namespace's":          {namespace("egress.sallyport.io/gateway: edge/out") + entryYAML("default/a", "a.test", ""), "edge/out"},
		"none in the namespace":    {namespace(direct) + entryYAML("default/a", "a.test", ""), "/"},
		"its own, not the other's": {namespace(direct) + entryYAML("default/a", "a.test", "", "egress.sallyport.io/gateway: edge/out"), "edge/out"},
		"inside the mesh":          {inside, "/"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t, tt.objects).Snapshot()
			svc := s.Services("a.test")[0]
			if svc.Exit.String() != tt.want {
				t.Errorf("%s, want %s", svc.Exit, tt.want)
			}
			named := svc.Exit.Namespace == "istio-system" // by the mesh; another namespace's word makes no gateway of a Service
			if ref := svc.Exit; !ref.IsZero() && (s.IsExit(ref) != named || slices.Contains(s.ExitsIn(ref.Namespace), ref) != named || svc.Borrowed == named) {
				t.Errorf("%s is known as a gateway: %v", ref, s.IsExit(ref))
			}
		})
	}
	w := newWorld(t, entryYAML("default/a", "a.test", ""))
	changed := w.apply(namespace(direct)) // the namespace's annotation changes its entries
	if !slices.Contains(changed.Hosts, "a.test") || !w.Snapshot().Services("a.test")[0].Exit.IsZero() {
		t.Errorf("%+v", changed)
	}
}

// TestVisible: which of several registrations a namespace sees.
func TestVisible(t *testing.T) {
	s := newWorld(t,
		entryYAML("shop/first", "a.test", ""), entryYAML("team/second", "a.test", ""),
		entryYAML("shop/own", "b.test", `exportTo: ["."]`+"\n  ports: [{number: 443, name: tls, protocol: TLS}]"),
		entryYAML("shop/some", "c.test", `exportTo: ["team", "."]`+"\n  ports: [{number: 443, name: tls, protocol: TLS}]"),
		entryYAML("shop/none", "d.test", `exportTo: ["~"]`+"\n  ports: [{number: 443, name: tls, protocol: TLS}]"),
	).Snapshot()
	for _, tt := range []struct{ host, ns, want string }{
		{"a.test", "shop", "first"}, {"a.test", "team", "second"}, {"a.test", "other", "first"},
		{"b.test", "shop", "own"}, {"b.test", "team", ""},
		{"c.test", "shop", "some"}, {"c.test", "team", "some"}, {"c.test", "other", ""},
		{"d.test", "shop", ""}, {"none.test", "shop", ""},
	} {
		got := ""
		if svc := s.Visible(tt.host, tt.ns, nil); svc != nil {
			got = svc.Source.Name
		}
		if got != tt.want {
			t.Errorf("%s sees of %s %q, want %q", tt.ns, tt.host, got, tt.want)
		}
	}
	for ns, special := range map[string]string{"shop": "shop", "team": "team", "other": ""} {
		if got := s.View(ns); got != special {
			t.Errorf("the view of %s is %q, want %q", ns, got, special)
		}
	}
}

// TestMatch: exact before wildcards, the longest wildcard first, of those that have the port.
func TestMatch(t *testing.T) {
	s := newWorld(t,
		entryYAML("default/exact", "a.b.test", "ports: [{number: 443, name: tls, protocol: TLS}]"),
		entryYAML("default/narrow", `"*.b.test"`, "ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]\n  resolution: NONE"),
		entryYAML("default/wide", `"*.test"`, "ports: [{number: 8080, name: http, protocol: HTTP}]\n  resolution: NONE"),
	).Snapshot()
	for _, tt := range []struct {
		name string
		port uint32
		want string
	}{
		{"a.b.test", 443, "exact"}, {"A.B.Test.", 443, "exact"}, {"a.b.test", 80, "narrow"}, {"a.b.test", 8080, "wide"}, {"a.b.test", 9, ""},
		{"x.b.test", 443, "narrow"}, {"x.y.b.test", 443, "narrow"}, {"b.test", 443, ""}, {"b.test", 8080, "wide"}, {"test", 8080, ""},
		{"a.b.test", 0, "exact"}, {"x.b.test", 0, "narrow"}, {"", 443, ""}, {"xb.test", 443, ""},
	} {
		got := ""
		if svc := s.Match(tt.name, tt.port, "default", nil); svc != nil {
			got = svc.Source.Name
		}
		if got != tt.want {
			t.Errorf("%s:%d: %q, want %q", tt.name, tt.port, got, tt.want)
		}
	}
}

// TestScope: which Sidecar object a workload has, and what it sees by it.
func TestScope(t *testing.T) {
	s := newWorld(t,
		entryYAML("shop/theirs", "a.theirs.test", ""), entryYAML("default/own", "own.test", ""), entryYAML("other/more", "b.theirs.test", ""),
		sidecarYAML("istio-system/all", "", `"*/*"`), sidecarYAML("istio-system/picky", "app: web", `"~/*"`),
		sidecarYAML("default/mine", "", `"./*"`), sidecarYAML("default/web", "app: web", `"shop/*.theirs.test", "./own.test"`),
	).Snapshot()
	for _, tt := range []struct {
		ns, app, scope string
		sees           []string
	}{
		{"default", "web", "default/web", []string{"a.theirs.test", "own.test"}},
		{"default", "db", "default/mine", []string{"own.test"}},
		{"other", "db", "istio-system/all", []string{"a.theirs.test", "b.theirs.test", "own.test"}},
		{"other", "web", "istio-system/all", []string{"a.theirs.test", "b.theirs.test", "own.test"}},
		{"istio-system", "web", "istio-system/picky", nil},
	} {
		scope := s.Scope(tt.ns, map[string]string{"app": tt.app, "more": "labels"})
		if scope == nil || scope.Key.Namespace+"/"+scope.Key.Name != tt.scope {
			t.Errorf("%s %s: %+v, want %s", tt.ns, tt.app, scope, tt.scope)
			continue
		}
		var sees []string
		for host := range s.Hosts() {
			if s.Visible(host, tt.ns, scope) != nil {
				sees = append(sees, host)
			}
		}
		slices.Sort(sees)
		if !slices.Equal(sees, tt.sees) {
			t.Errorf("%s %s sees %v, want %v", tt.ns, tt.app, sees, tt.sees)
		}
		if s.ScopeByKey(scope.Key) != scope {
			t.Errorf("%s is not found by its key", tt.scope)
		}
	}
	aged := func(id, selector, created string) string {
		return strings.Replace(sidecarYAML(id, selector, `"*/*"`), "metadata: {", "metadata: {creationTimestamp: "+created+", ", 1)
	}
	several := newWorld(t,
		aged("default/a", "", "2021-01-01T00:00:00Z"), aged("default/zoned", "", "2020-01-01T00:00:00Z"), aged("default/later", "", "2020-01-01T00:00:00Z"),
		aged("default/b", "app: web", "2023-01-01T00:00:00Z"), aged("default/x", "more: labels", "2022-01-01T00:00:00Z"),
	).Snapshot()
	for app, want := range map[string]string{"web": "x", "none": "later"} {
		labels := map[string]string{"app": app}
		if app == "web" {
			labels["more"] = "labels"
		}
		if scope := several.Scope("default", labels); scope.Key.Name != want {
			t.Errorf("of several for %s %s counts, want the oldest, %s", app, scope.Key.Name, want)
		}
	}
	if none := newWorld(t).Snapshot(); none.Scope("default", nil) != nil || none.ScopeByKey(config.Key{}) != nil {
		t.Error("a scope from nowhere")
	}
}

// TestRule: which DestinationRule counts for a host: the client's namespace's, the host's, the root namespace's, which are the last for its own workloads, too, but for those that are for
// nobody else.
func TestRule(t *testing.T) {
	s := newWorld(t,
		entryYAML("shop/a", "a.b.test", ""),
		ruleYAML("client/mine", "a.b.test", ""), ruleYAML("shop/theirs", "a.b.test", ""), ruleYAML("istio-system/all", "*.test", ""),
		ruleYAML("shop/hidden", "*.b.test", ", exportTo: [\".\"]"), ruleYAML("default/wide", "*.b.test", ""),
	).Snapshot()
	svc := s.Services("a.b.test")[0]
	for ns, want := range map[string]string{"client": "mine", "shop": "theirs", "default": "wide", "other": "theirs", "istio-system": "theirs"} {
		if r := s.Rule(svc, ns, ""); r == nil || r.Key.Name != want {
			t.Errorf("%s: %+v, want %s", ns, r, want)
		}
	}
	private := newWorld(t, entryYAML("shop/a", "a.b.test", ""), ruleYAML("shop/theirs", "a.b.test", ""), ruleYAML("istio-system/own", "*.b.test", ", exportTo: [\".\"]")).Snapshot()
	for ns, want := range map[string]string{"shop": "theirs", "istio-system": "own"} {
		if r := private.Rule(private.Services("a.b.test")[0], ns, ""); r == nil || r.Key.Name != want {
			t.Errorf("%s: %+v, want %s", ns, r, want)
		}
	}
	wide := newWorld(t, entryYAML("shop/a", "a.b.test", ""), ruleYAML("istio-system/all", "*.test", ""), ruleYAML("shop/hidden", "*.b.test", ", exportTo: [\".\"]")).Snapshot()
	for ns, want := range map[string]string{"shop": "hidden", "other": "all", "istio-system": "all"} {
		if r := wide.Rule(wide.Services("a.b.test")[0], ns, ""); r == nil || r.Key.Name != want {
			t.Errorf("%s: %+v, want %s", ns, r, want)
		}
	}
}

// TestAddresses: who owns an address on a port, and where proxies read.
func TestAddresses(t *testing.T) {
	s := newWorld(t,
		entryYAML("default/single", "single.test", "addresses: [203.0.113.7]\n  ports: [{number: 5432, name: tcp, protocol: TCP}, {number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]"),
		entryYAML("default/range", "range.test", "addresses: [198.51.100.0/24]\n  ports: [{number: 5432, name: tcp, protocol: TCP}, {number: 80, name: http, protocol: HTTP}]"),
		entryYAML("default/narrow", "narrow.test", "addresses: [198.51.100.64/26]\n  ports: [{number: 5432, name: tcp, protocol: TCP}]"),
		entryYAML("default/made", "made.test", "ports: [{number: 6379, name: tcp, protocol: TCP}, {number: 443, name: tls, protocol: TLS}]"),
		entryYAML("shop/private", "private.test", "exportTo: [\".\"]\n  addresses: [203.0.113.9]\n  ports: [{number: 5432, name: tcp, protocol: TCP}]"),
	).Snapshot()
	made := s.Services("made.test")[0].VIP4()
	if !host.MadeUp(made) || host.MadeUp(netip.MustParseAddr("203.0.113.7")) || host.MadeUp(netip.Addr{}) {
		t.Errorf("made up: %s", made)
	}
	for _, tt := range []struct {
		ip   string
		port uint32
		want string
	}{
		{"203.0.113.7", 5432, "single.test"}, {"203.0.113.7", 80, "single.test"}, {"203.0.113.7", 443, "single.test"}, {"203.0.113.7", 9, ""},
		{"198.51.100.1", 5432, "range.test"}, {"198.51.100.70", 5432, "narrow.test"}, {"198.51.100.1", 80, ""},
		{made.String(), 6379, "made.test"}, {made.String(), 443, "made.test"}, {"203.0.113.9", 5432, ""}, {"2001:db8::1", 5432, ""},
	} {
		got := ""
		if svc := s.MatchAddress(netip.MustParseAddr(tt.ip), tt.port, "default", nil); svc != nil {
			got = svc.Host
		}
		if got != tt.want {
			t.Errorf("%s:%d: %q, want %q", tt.ip, tt.port, got, tt.want)
		}
	}
	if s.MatchAddress(netip.Addr{}, 5432, "default", nil) != nil {
		t.Error("no address belongs to somebody")
	}
	for port, want := range map[uint32]bool{80: true, 443: true, 5432: false, 6379: false, 9999: true, 3306: false, 993: true} {
		if got := s.Readable(port, "default", nil); got != want {
			t.Errorf("readable %d: %v", port, got)
		}
	}
}
