package translate_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/interpret"
)

// shared is a Gateway of the Gateway API that takes listeners of ListenerSets of all namespaces.
const shared = `apiVersion: v1
kind: Service
metadata: {name: public-sallyport, namespace: ingress}
spec: {selector: {gateway.networking.k8s.io/gateway-name: public}, clusterIP: 10.251.0.2, ports: [{name: http, port: 80, targetPort: 8080}, {name: https, port: 443, targetPort: 8443}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, clusterIP: 10.251.0.3, ports: [{name: http, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: ingress}
spec:
  gatewayClassName: sallyport
  listeners: [{name: http, port: 80, protocol: HTTP}]
  allowedListeners: {namespaces: {from: All}}
`

// sharedPod is one of its pods, whose agent finds certificates by the names that clients say.
func sharedPod() translate.Node {
	return translate.Node{ID: "router~10.0.0.5~in.ingress~ingress.svc.cluster.local", Namespace: "ingress", Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": "public"}, Certificates: true}
}

func secretText(name string, pair int) string {
	p := registrytest.Pair(pair)
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return fmt.Sprintf("---\napiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: %s, namespace: shop}\ndata: {tls.crt: %s, tls.key: %s}\n", name, encoded(p.Certificate), encoded(p.Key))
}

// setText is a ListenerSet of one listener at port 443, of a day.
func setText(name string, day int, listener string) string {
	return fmt.Sprintf("---\napiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: %s, namespace: shop, creationTimestamp: '2026-01-%02dT00:00:00Z'}\nspec: {parentRef: {name: public, namespace: ingress}, listeners: [{name: l, port: 443, %s}]}\n", name, day, listener)
}

func endsTLS(host, secret string) string {
	return fmt.Sprintf("protocol: HTTPS, hostname: %q, tls: {certificateRefs: [{name: %s}]}", host, secret)
}

func setRouteText(name, host string) string {
	return fmt.Sprintf("---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: %[1]s, namespace: shop}\nspec: {parentRefs: [{kind: ListenerSet, name: %[1]s}], hostnames: [%[2]q], rules: [{backendRefs: [{name: web, port: 80}]}]}\n", name, host)
}

// sharing is such a mesh, and the Gateway's view, which follows what is applied.
type sharing struct {
	testing.TB
	mesh     mesh.Config
	objects  map[config.Key]*config.Object
	registry *registry.Registry
	made     *translate.Translator
	view     *translate.View
}

func newSharing(t testing.TB, text string) *sharing {
	t.Helper()
	m := &sharing{TB: t, mesh: mesh.Default(), objects: map[config.Key]*config.Object{}, made: translate.NewTranslator()}
	m.registry = registry.New(&m.mesh)
	s, _ := m.registry.Apply(m.changes(shared+text, true))
	m.view = m.made.Build(s, translate.Classify(s, sharedPod()))
	return m
}

func (m *sharing) changes(text string, there bool) (out []config.Change) {
	m.Helper()
	f := decode.File("a.yaml", []byte(text))
	if len(f.Findings) > 0 {
		m.Fatal(f.Findings)
	}
	for i := range f.Objects {
		c := config.Change{Key: f.Objects[i].Key, Object: &f.Objects[i]}
		if m.objects[c.Key] = c.Object; !there {
			c.Object = nil
			delete(m.objects, c.Key)
		}
		out = append(out, c)
	}
	return out
}

// apply gives what a text's objects change, or their absence.
func (m *sharing) apply(text string, there bool) (names []string, changed registry.Changed) {
	m.Helper()
	s, changed := m.registry.Apply(m.changes(text, there))
	m.made.Forget(changed)
	var refs []resource.Ref
	m.view, refs = m.made.Update(m.view, s, changed)
	for _, ref := range refs {
		names = append(names, fmt.Sprint(ref.Type.URL()[strings.LastIndexByte(ref.Type.URL(), '.')+1:], " ", ref.Name))
	}
	return names, changed
}

// fresh is the view as it is made from nothing.
func (m *sharing) fresh() *translate.View {
	var all []config.Change
	for key, o := range m.objects {
		all = append(all, config.Change{Key: key, Object: o})
	}
	s, _ := registry.New(&m.mesh).Apply(all)
	return translate.NewTranslator().Build(s, translate.Classify(s, sharedPod()))
}

// many are so many hosts, each with a ListenerSet, a Secret and a route.
func many(n int) string {
	var text strings.Builder
	for i := range n {
		name, host := fmt.Sprintf("s%d", i), fmt.Sprintf("s%d.test", i)
		text.WriteString(secretText(name, 0) + setText(name, 2, endsTLS(host, name)) + setRouteText(name, host))
	}
	return text.String()
}

// TestListenerCostsItself: of many listeners with a certificate each, one more, or one less, has its own sent, and told, and costs no more work than
// among few.
func TestListenerCostsItself(t *testing.T) {
	one := secretText("new", 1) + setText("new", 3, endsTLS("new.test", "new")) + setRouteText("new", "new.test")
	cost := func(n int) float64 {
		m := newSharing(t, many(n))
		there := false
		return testing.AllocsPerRun(2, func() {
			there = !there
			names, changed := m.apply(one, there)
			if want := []string{"Secret kubernetes://shop/new", "ServerName sni/new.test", "VirtualHost https.8443.sni/new.test"}; !slices.Equal(names, want) {
				t.Errorf("of %d: %q changed, want %q", n, names, want)
			}
			if len(changed.GatewayAPI) > 3 { // the route, the ListenerSet, and the Gateway, which counts those
				t.Errorf("of %d: %v are told", n, changed.GatewayAPI)
			}
			size := 0
			for _, ref := range []resource.Ref{{Type: resource.Secret, Name: "kubernetes://shop/new"}, {Type: resource.ServerName, Name: "sni/new.test"}, {Type: resource.VirtualHost, Name: "https.8443.sni/new.test"}} {
				r, is := m.view.Get(ref.Type, ref.Name)
				if is != there {
					t.Errorf("of %d: %v is there: %t", n, ref, is)
				}
				if is {
					size += r.Size()
				}
			}
			if size > 8<<10 {
				t.Errorf("of %d: %d bytes", n, size)
			}
		})
	}
	if few, lots := cost(40), cost(640); lots > 3*few {
		t.Errorf("among sixteen times as many one takes %.0f allocations, and not %.0f", lots, few)
	}
}

// BenchmarkListener is what the controller does for one listener more, and one less, with its certificate and its route, among 10,000.
func BenchmarkListener(b *testing.B) {
	m := newSharing(b, many(10_000))
	one := secretText("new", 1) + setText("new", 3, endsTLS("new.test", "new")) + setRouteText("new", "new.test")
	there := false
	b.ReportAllocs()
	for b.Loop() {
		there = !there
		m.apply(one, there)
	}
}

// TestListenersAreAsFromNothing: change by change comes to the same as all at once, also where enough share a chain, and then do not.
func TestListenersAreAsFromNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	m := newSharing(t, many(36))
	for step := range registrytest.Times(300) {
		name := fmt.Sprintf("s%d", random.IntN(48))
		host := pick(name+".test", name+".test", name+".test", "s1.test", "*.wild.test", "in.wild.test", "*.test", "")
		var text string
		switch random.IntN(6) {
		case 0:
			text = secretText(pick(name, "s0", "s0-cacert"), random.IntN(2))
		case 1:
			text = setRouteText(name, pick(name+".test", "s2.test", "x.wild.test", "*.test"))
		case 2:
			text = setText(name, 1+random.IntN(3), "protocol: TLS, hostname: '"+host+"', tls: {mode: Passthrough}")
		case 3:
			text = setText(name, 1+random.IntN(3), fmt.Sprintf("protocol: HTTPS, hostname: %q, tls: {certificateRefs: [{name: s0}, {name: s1}]}", host))
		default:
			text = setText(name, 1+random.IntN(3), endsTLS(host, pick(name, "s0", "none")))
		}
		before := versions(m.view)
		names, _ := m.apply(text, random.IntN(3) > 0)
		after := versions(m.view)
		if d := cmp.Diff(versions(m.fresh()), after); d != "" {
			t.Fatalf("step %d (-from nothing +change by change):\n%s%s", step, text, d)
		}
		if len(names) == 0 && cmp.Diff(before, after) != "" {
			t.Fatalf("step %d: what is sent differs, and nothing is said to", step)
		}
	}
}

// TestEnterAgreesWhereCertificatesAreFoundByName holds what policy says of a port with many certificates against what the gateway does: of connections
// opened for each of some names, and requests for each other over them.
func TestEnterAgreesWhereCertificatesAreFoundByName(t *testing.T) {
	text := many(40)
	for name, host := range map[string]string{"wild": "*.wild.test", "in-wild": "in.wild.test"} {
		text += secretText(name, 0) + setText(name, 2, endsTLS(host, name)) + setRouteText(name, host)
	}
	text += setText("missing", 2, endsTLS("missing.test", "none")) + setRouteText("missing", "missing.test") +
		setText("two", 2, `protocol: HTTPS, hostname: two.test, tls: {certificateRefs: [{name: s0}, {name: s1}]}`) + setRouteText("two", "two.test") +
		setText("passed", 2, `protocol: TLS, hostname: passed.test, tls: {mode: Passthrough}`) +
		setText("unrouted", 2, endsTLS("unrouted.test", "s0"))
	m := newSharing(t, text)
	e := world{objects: m.objects, mesh: m.mesh}.envoys(newDecoder())
	view, proxy := e.node(sharedPod(), "")
	pods := registry.IngressCandidate{Has: sharedPod().Labels}
	pods.Ingress, _ = e.snapshot.IngressOf("ingress", pods.Has, 0)
	names := []string{"s0.test", "s1.test", "x.wild.test", "y.wild.test", "in.wild.test", "wild.test", "missing.test", "nobody.test", "two.test", "passed.test", "unrouted.test", "203.0.113.1"}
	seen := map[string]int{}
	for _, opened := range names {
		for _, asked := range names {
			x := policy.IngressAttempt{Gateway: pods, From: podAddress.Addr()}
			x.Scheme, x.Host, x.Port, x.Method, x.Path, x.Headers = policy.HTTPS, opened, 443, "GET", "/", map[string][]string{"host": {asked}}
			v := policy.DecideIngress(e.snapshot, x)
			want := enteredBy(v)
			c := interpret.Connection{From: podAddress, To: netip.MustParseAddrPort("10.0.0.5:8443"), Through: 8443}
			hello := &interpret.Hello{SNI: opened, ALPN: []string{"h2", "http/1.1"}, Inside: &interpret.Bytes{Request: &interpret.Request{Method: "GET", Authority: asked, Path: "/", Headers: map[string]string{}}}}
			if opened == "203.0.113.1" {
				hello.SNI = ""
			}
			c.Bytes.Hello = hello
			out, err := proxy.Connect(c)
			if err != nil {
				t.Fatal(err)
			}
			got := enteredThrough(out, want)
			if opened != "two.test" && opened != "passed.test" && !hasCertificate(view, hello.SNI) { // which ends the handshake
				got = entered{Closed: true}
			}
			if got != want {
				t.Errorf("%s over a connection opened for %s:\n  policy: %+v (%s)\n  proxy:  %+v\n    %s", asked, opened, want, v.Reason, got, strings.Join(out.Steps, "\n    "))
			}
			switch {
			case want.Allowed:
				seen["allowed"]++
			case want.Closed:
				seen["closed"]++
			default:
				seen[fmt.Sprint(want.Status)]++
			}
		}
	}
	for _, what := range []string{"allowed", "closed", "404", "421"} {
		if seen[what] == 0 {
			t.Errorf("nothing is %s: %v", what, seen)
		}
	}
}

// hasCertificate says whether an agent that has this view has a certificate for what a client's TLS asks for.
func hasCertificate(v *translate.View, sni string) bool {
	host := sni
	for host != "" {
		if r, is := v.Get(resource.ServerName, "sni/"+host); is {
			secret := &wrapperspb.StringValue{}
			return proto.Unmarshal(r.Any().GetValue(), secret) == nil && secret.Value != ""
		}
		_, tail, more := strings.Cut(strings.TrimPrefix(host, "*."), ".")
		if host = "*." + tail; !more {
			break
		}
	}
	return false
}
