package translate_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

const aRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: %s, namespace: %s, creationTimestamp: "%s-01-01T00:00:00Z"}
spec: {parentRefs: [{name: public, namespace: infra, port: %d}], rules: [{backendRefs: [{name: other, namespace: infra, port: 5353}]}]}
`

// TestDatagramsCostTheirListener: a route of UDP that comes is its port's listener and what that leads to, and nothing else; one that is younger, or of a namespace that
// the listener does not let in, is nothing.
func TestDatagramsCostTheirListener(t *testing.T) {
	l := newIngressTrialOf(t, "testdata/gatewayapi-datagrams.txtar")
	to := func(service string, port int) string {
		return fmt.Sprint(resource.Cluster, " outbound|", fmt.Sprintf(service, port))
	}
	listener := func(port int, to ...string) []string {
		return append(to, fmt.Sprint(resource.Listener, " udp_0.0.0.0_", port))
	}
	const dns, other = "53|udp.%d|dns.infra.svc.cluster.local", "5353|udp.%d|other.infra.svc.cluster.local"
	for _, c := range []struct {
		what, route string
		want        []string
	}{
		{"of another namespace", fmt.Sprintf(aRoute, "theirs", "shop", "2020", 53), nil},
		{"a younger one", fmt.Sprintf(aRoute, "young", "infra", "2027", 53), nil},
		{"an older one", fmt.Sprintf(aRoute, "old", "infra", "2020", 53), listener(5300, to(other, 5300), to(dns, 5300))},
		{"where nothing listened", fmt.Sprintf(aRoute, "new", "infra", "2020", 99), listener(99, to(other, 99))},
	} {
		if refs := l.apply(c.route, false); !slices.Equal(refs, c.want) {
			t.Errorf("%s: %q, want %q", c.what, refs, c.want)
		}
		if refs := l.apply(c.route, true); !slices.Equal(refs, c.want) {
			t.Errorf("%s goes: %q, want %q", c.what, refs, c.want)
		}
	}
}

// TestDatagramsArePoliced: where an AuthorizationPolicy is for the pods, nothing listens for UDP, and what comes by TCP is as it was.
func TestDatagramsArePoliced(t *testing.T) {
	c := load(t, "testdata/gatewayapi-datagrams.txtar")
	c.node.Labels["app"] = "door"
	for text, closed := range map[string]bool{
		"metadata: {name: p, namespace: infra}\nspec: {}":                                                               true,
		"metadata: {name: p, namespace: istio-system}\nspec: {action: DENY, rules: [{}]}":                               true,
		"metadata: {name: p, namespace: infra}\nspec: {selector: {matchLabels: {app: door}}, rules: [{}]}":              true,
		"metadata: {name: p, namespace: infra}\nspec: {selector: {matchLabels: {app: web}}, rules: [{}]}":               false,
		"metadata: {name: p, namespace: infra}\nspec: {action: AUDIT, rules: [{}]}":                                     false,
		"metadata: {name: p, namespace: infra, annotations: {istio.io/dry-run: 'true'}}\nspec: {}":                      false,
		"metadata: {name: p, namespace: shop}\nspec: {}":                                                                false,
		"metadata: {name: p, namespace: shop}\nspec: {selector: {matchLabels: {app: door}}, action: DENY, rules: [{}]}": false,
	} {
		if names, want := opened(c.snapshotWith("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n"+text, ""), c.node), listening(!closed); !slices.Equal(names, want) {
			t.Errorf("%s: %q, want %q", text, names, want)
		}
	}
}

// snapshotWith is the golden's with one object more, of which nothing is applied where something refused it.
func (c testCase) snapshotWith(text, refused string) *registry.Snapshot {
	f := decode.File("a.yaml", []byte(text))
	f.Objects[0].Refused = refused
	var changes []config.Change
	for _, o := range append(slices.Clone(c.objects), f.Objects...) {
		changes = append(changes, config.Change{Key: o.Key, Object: &o})
	}
	s, _ := registry.New(&c.mesh).Apply(changes)
	return s
}

// opened are the listeners where something comes in.
func opened(s *registry.Snapshot, n translate.Node) (names []string) {
	translate.NewTranslator().Build(s, translate.Classify(s, n)).Walk(resource.Listener, func(l *resource.Resource) bool {
		if strings.Contains(l.Name, "0.0.0.0") {
			names = append(names, l.Name)
		}
		return true
	})
	return names
}

// listening are those of the golden, with that for UDP or without it.
func listening(udp bool) []string {
	if udp {
		return []string{"0.0.0.0_5301", "udp_0.0.0.0_5300"}
	}
	return []string{"0.0.0.0_5301"}
}

// TestDatagramsAreRecorded: where what has no room for its records is to be refused, nothing comes in by UDP, which Envoy does not refuse then.
func TestDatagramsAreRecorded(t *testing.T) {
	c := load(t, "testdata/gatewayapi-datagrams.txtar")
	const nothing = "apiVersion: v1\nkind: Namespace\nmetadata: {name: infra}\n"
	for _, full := range []string{mesh.Deny, mesh.Drop} {
		c.mesh.Audit.WhenFull = full
		if names, want := opened(c.snapshotWith(nothing, ""), c.node), listening(full == mesh.Drop); !slices.Equal(names, want) {
			t.Errorf("whenFull: %s: %q, want %q", full, names, want)
		}
	}
}

// TestDatagramsToClosed: what closes a host closes it for UDP.
func TestDatagramsToClosed(t *testing.T) {
	c := load(t, "testdata/gatewayapi-datagrams.txtar")
	rule := func(host, more string) string {
		return "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r, namespace: infra}\nspec: {host: " + host + ".infra.svc.cluster.local" + more + "}\n"
	}
	const first, second = "outbound|53|udp.5300|dns.infra.svc.cluster.local", "outbound|5353|udp.5300|other.infra.svc.cluster.local"
	for _, x := range []struct{ what, text, refused, missing string }{
		{"a rule that is refused", rule("dns", ""), "spec.trafficPolicy.tls.mode: nobody knows it", first},
		{"one of the other Service", rule("other", ""), "spec.trafficPolicy.tls.mode: nobody knows it", second},
		{"TLS", rule("dns", ", trafficPolicy: {tls: {mode: SIMPLE}}"), "", first},
		{"a BackendTLSPolicy, which is about TCP", "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {name: p, namespace: infra}\nspec: {targetRefs: [{group: '', kind: Service, name: dns}], validation: {hostname: dns.test, wellKnownCACertificates: System}}\n", "", ""},
	} {
		s := c.snapshotWith(x.text, x.refused)
		v := translate.NewTranslator().Build(s, translate.Classify(s, c.node))
		l, ok := v.Get(resource.Listener, "udp_0.0.0.0_5300")
		if !ok {
			t.Errorf("%s: nothing listens", x.what)
			continue
		}
		for _, cluster := range []string{first, second} {
			if leads := bytes.Contains(l.Value(), []byte(cluster)); leads != (cluster != x.missing) {
				t.Errorf("%s: %s is led to: %v", x.what, cluster, leads)
			}
		}
	}
}

// TestDatagramsAreBounded: a rule may let fewer clients in at a time, not more than the port's share by weight, and a subset of any name keeps
// its cluster. The more ports, and the less a pod may, the smaller the share.
func TestDatagramsAreBounded(t *testing.T) {
	c := load(t, "testdata/gatewayapi-datagrams.txtar")
	for _, x := range []struct {
		rule, subset int
		sessions     uint32 // of the pod
		want, other  uint32
	}{
		{7, 7, 65536, 7, 3276},
		{1_000_000, 1_000_000, 65536, 11468, 3276},
		{1_000_000, 1_000_000, 1000, 175, 50},
		{1_000_000, 1_000_000, 0, 716, 204},
	} {
		s := c.snapshotWith(fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: r, namespace: infra}
spec: {host: dns.infra.svc.cluster.local, trafficPolicy: {connectionPool: {tcp: {maxConnections: %d}}}, subsets: [{name: udp, labels: {app: dns}}]}
`, x.rule), "")
		c.node.Sessions = x.sessions
		v := translate.NewTranslator().Build(s, translate.Classify(s, c.node))
		for name, want := range map[string]uint32{
			"outbound|53|udp.5300|dns.infra.svc.cluster.local": x.want, "outbound|5353|udp.5300|other.infra.svc.cluster.local": x.other, "outbound|53|udp|dns.infra.svc.cluster.local": uint32(x.subset),
		} {
			r, ok := v.Get(resource.Cluster, name)
			if !ok {
				t.Fatalf("no cluster %s", name)
			}
			var cluster clusterv3.Cluster
			if err := proto.Unmarshal(r.Value(), &cluster); err != nil {
				t.Fatal(err)
			}
			if got := cluster.CircuitBreakers.Thresholds[0].MaxConnections.GetValue(); got != want {
				t.Errorf("%s with %+v: %d, want %d", name, x, got, want)
			}
		}
	}
}
