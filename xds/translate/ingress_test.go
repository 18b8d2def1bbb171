package translate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// ingressTrial is the mesh of the golden, and its gateway's view, which follows what is applied.
type ingressTrial struct {
	*testing.T
	golden   testCase
	registry *registry.Registry
	made     *translate.Translator
	view     *translate.View
}

func newIngressTrial(t *testing.T) *ingressTrial {
	t.Helper()
	return newIngressTrialOf(t, "testdata/ingress.txtar")
}

func newIngressTrialOf(t *testing.T, golden string) *ingressTrial {
	t.Helper()
	c := load(t, golden)
	l := &ingressTrial{T: t, golden: c, registry: registry.New(&c.mesh), made: translate.NewTranslator()}
	var changes []config.Change
	for i := range c.objects {
		changes = append(changes, config.Change{Key: c.objects[i].Key, Object: &c.objects[i]})
	}
	s, _ := l.registry.Apply(changes)
	l.view = l.made.Build(s, translate.Classify(s, c.node))
	return l
}

// apply gives what a file with one object changes; remove takes the object away.
func (l *ingressTrial) apply(text string, remove bool) (refs []string) {
	l.Helper()
	r := decode.File("a.yaml", []byte(text))
	if len(r.Objects) != 1 || len(r.Findings) > 0 {
		l.Fatalf("%d objects, %v", len(r.Objects), r.Findings)
	}
	c := config.Change{Key: r.Objects[0].Key, Object: &r.Objects[0]}
	if remove {
		c.Object = nil
	}
	s, changed := l.registry.Apply([]config.Change{c})
	l.made.Forget(changed)
	var all []resource.Ref
	l.view, all = l.made.Update(l.view, s, changed)
	for _, ref := range all {
		refs = append(refs, fmt.Sprint(ref.Type, " ", ref.Name))
	}
	fresh := translate.NewTranslator().Build(s, l.view.Class)
	if digest(fresh) != digest(l.view) {
		l.Errorf("after %s the view is not what it would be from nothing", c.Key)
	}
	return refs
}

const oneName = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: more, namespace: shop}
spec: {hosts: [%s], gateways: [public], http: [{route: [{destination: {host: web, port: {number: 80}}}]}]}
`

// TestNameCostsItsRow: a name that comes or goes is its row in the tables that have it, and nothing else: no listener, no table,
// no cluster.
func TestNameCostsItsRow(t *testing.T) {
	l := newIngressTrial(t)
	row := fmt.Sprint(resource.VirtualHost, " https.8443/other.example.com")
	if refs := l.apply(fmt.Sprintf(oneName, "other.example.com"), false); !slices.Equal(refs, []string{row}) {
		t.Errorf("routes for a name that is there change %q, want its row", refs)
	}
	gateway := `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: wide, namespace: shop, creationTimestamp: "2026-03-01T00:00:00Z"}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*.wide.example"]}]}
`
	if refs := l.apply(gateway, false); len(refs) != 0 {
		t.Errorf("a server of requests at a port that is open changes %q", refs)
	}
	wide := `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: wide, namespace: shop}
spec: {hosts: [a.wide.example], gateways: [wide], http: [{route: [{destination: {host: web, port: {number: 80}}}]}]}
`
	want := []string{fmt.Sprint(resource.VirtualHost, " http.8080/a.wide.example")}
	for _, remove := range []bool{false, true} {
		if refs := l.apply(wide, remove); !slices.Equal(refs, want) {
			t.Errorf("a name that comes (or goes: %v) changes %q, want %q", remove, refs, want)
		}
	}
}

// TestNeighbourTakesNoName: what a younger object of another namespace writes about a name, or one below a pattern, changes nothing of it.
func TestNeighbourTakesNoName(t *testing.T) {
	for what, c := range map[string]struct{ gateway, host string }{
		"the name":        {"shop/public", "plain.example.com"},
		"by a Gateway":    {"theirs", "shop.example.com"},
		"below a pattern": {"theirs", "a.wide.example"},
	} {
		t.Run(what, func(t *testing.T) {
			l := newIngressTrial(t)
			l.apply(`apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: wide, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*.wide.example"]}]}
`, false)
			before := versions(l.view)
			l.apply(`apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: theirs, namespace: neighbour, creationTimestamp: "2026-05-01T00:00:00Z"}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: [a.wide.example, shop.example.com]}
  - {port: {number: 443, name: https, protocol: HTTPS}, hosts: [shop.example.com, bank.example.com], tls: {mode: SIMPLE, credentialName: web-cert}}
  - {port: {number: 5432, name: tcp, protocol: HTTP}, hosts: ["*"]}
`, false)
			l.apply(fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: theirs2, namespace: neighbour, creationTimestamp: "2026-05-01T00:00:00Z"}
spec: {hosts: [%s], gateways: [%s], http: [{directResponse: {status: 418}}]}
`, c.host, c.gateway), false)
			after := versions(l.view)
			for name, version := range before {
				if after[name] != version {
					t.Errorf("%s is another", name)
				}
			}
		})
	}
}

// TestKeysStayAtHome: the gateway's own namespace's Secrets are given to it, over TLS, and to no gateway elsewhere.
func TestKeysStayAtHome(t *testing.T) {
	l := newIngressTrial(t)
	s := l.registry.Snapshot()
	for what, c := range map[string]struct {
		change func(*translate.Node)
		keys   bool
	}{
		"its own":      {func(*translate.Node) {}, true},
		"another's":    {func(n *translate.Node) { n.Namespace = "neighbour" }, false},
		"in plaintext": {func(n *translate.Node) { n.Plain = true }, false},
	} {
		n := l.golden.node
		c.change(&n)
		class := translate.Classify(s, n)
		v := l.made.Build(s, class)
		if class.Kind != translate.Ingress || (v.Len(resource.Secret) > 0) != c.keys {
			t.Errorf("%s: class %+v has %d secrets", what, class, v.Len(resource.Secret))
		}
	}
}

// TestWhatIsAnIngress: pods whose labels differ in what no Gateway asks for are one class; who lets others leave is an egress gateway,
// whatever Gateways select it.
func TestWhatIsAnIngress(t *testing.T) {
	l := newIngressTrial(t)
	s := l.registry.Snapshot()
	n := l.golden.node
	n.Labels = map[string]string{"istio": "ingressgateway", "pod-template-hash": "y"}
	if class := translate.Classify(s, n); class != l.view.Class {
		t.Errorf("another pod is of class %+v, and not %+v", class, l.view.Class)
	}
	l.apply(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: leaves, namespace: istio-ingress, annotations: {egress.sallyport.io/gateway: istio-ingress/istio-ingressgateway}}
spec: {hosts: [leaves.example], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`, false)
	if class := translate.Classify(l.registry.Snapshot(), n); class.Kind != translate.Gateway {
		t.Errorf("a gateway that a host leaves by is of class %+v", class)
	}
}

// TestServicesOfAGateway: of several Services that select a gateway's pods each says where they listen for its ports, also when it changes, but for
// one that opts out.
func TestServicesOfAGateway(t *testing.T) {
	l := newIngressTrial(t)
	listens := func() (out []string) {
		s := l.registry.Snapshot()
		l.view = l.made.Build(s, translate.Classify(s, l.golden.node))
		l.view.Walk(resource.Listener, func(r *resource.Resource) bool {
			if strings.HasPrefix(r.Name, "0.0.0.0_9") {
				out = append(out, r.Name)
			}
			return true
		})
		return out
	}
	l.apply(`apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: more, namespace: shop}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 90, name: http, protocol: HTTP}, hosts: [more.example.com]}]}
`, false)
	service := `apiVersion: v1
kind: Service
metadata: {name: more, namespace: istio-ingress, labels: {%s}}
spec: {clusterIP: 10.0.0.19, selector: {istio: ingressgateway}, ports: [{name: http, port: 90, targetPort: %d}]}
`
	for _, c := range []struct {
		labels string
		port   int
		want   string
	}{{"", 9090, "0.0.0.0_9090"}, {"", 9091, "0.0.0.0_9091"}, {`experimental.istio.io/disable-gateway-port-translation: "true"`, 9091, "0.0.0.0_90"}} {
		l.apply(fmt.Sprintf(service, c.labels, c.port), false)
		if got := listens(); !slices.Equal(got, []string{c.want}) {
			t.Errorf("with target port %d and labels %q it listens at %q, want %s", c.port, c.labels, got, c.want)
		}
	}
	l.apply(fmt.Sprintf(service, "", 9090), true)
	if got := listens(); !slices.Equal(got, []string{"0.0.0.0_90"}) {
		t.Errorf("without the Service it listens at %q", got)
	}
}

// TestServiceOfMoreThanTheGateway: of a Service that selects apps beside an ingress gateway's pods the gateway refuses its own pods only, and an app that
// comes is its own clusters' endpoints, and nothing else.
func TestServiceOfMoreThanTheGateway(t *testing.T) {
	l := newIngressTrialOf(t, "testdata/calls/broad-service.txtar")
	addresses := func(host string) string {
		name := "outbound|80||" + host + ".istio-system.svc.cluster.local"
		r, there := l.view.Get(resource.Endpoints, name)
		if !there {
			t.Fatalf("there is no %s", name)
		}
		var load endpointv3.ClusterLoadAssignment
		if err := proto.Unmarshal(r.Value(), &load); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, at := range load.Endpoints {
			for _, e := range at.LbEndpoints {
				out = append(out, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
			}
		}
		return fmt.Sprint(out)
	}
	pod := `apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: istio-system, labels: {app: web, tier: edge%s}}
spec: {containers: []}
status: {podIP: %s, phase: Running}
`
	for _, host := range []string{"everything", "app"} {
		if got := addresses(host); got != "[10.244.0.4]" {
			t.Errorf("%s is served at %s, want the app alone", host, got)
		}
	}
	refs := l.apply(fmt.Sprintf(pod, "web-2", "", "10.244.0.5"), false)
	for _, ref := range refs {
		if !strings.HasPrefix(ref, fmt.Sprint(resource.Endpoints, " ")) {
			t.Errorf("an app that comes changes %s", ref)
		}
	}
	if got := addresses("everything"); got != "[10.244.0.4 10.244.0.5]" {
		t.Errorf("with another app it is served at %s", got)
	}
	l.apply(fmt.Sprintf(pod, "web-3", ", istio: ingressgateway", "10.244.0.6"), false)
	if got := addresses("app"); got != "[10.244.0.4 10.244.0.5]" {
		t.Errorf("with a gateway's pod among the app's it is served at %s", got)
	}
}
