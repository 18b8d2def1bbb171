package translate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/fields"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// kubernetes has the kinds of Kubernetes and the Gateway API from which addresses, ports and names go into what proxies get.
const kubernetes = `
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.20, clusterIPs: [10.96.0.20, "fd00::20"], externalIPs: [192.0.2.77], selector: {app: web}, ports: [{name: http, port: 80, targetPort: web}, {name: tcp, port: 81, targetPort: 8081}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: heads}, spec: {clusterIP: None, selector: {app: web}, ports: [{name: tcp, port: 90, targetPort: 9090}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: bare}, spec: {clusterIP: 10.96.0.21, ports: [{name: http, port: 80, appProtocol: http, targetPort: 8080}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: alias}, spec: {type: ExternalName, externalName: d.com}}
---
{apiVersion: v1, kind: Service, metadata: {name: in}, spec: {clusterIP: 10.96.0.22, selector: {istio: in}, ports: [{name: http, port: 80, targetPort: 8080}, {name: dns, port: 53, protocol: UDP}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1, labels: {app: web, security.istio.io/tlsMode: istio}}, spec: {nodeName: n1, serviceAccountName: web, containers: [{name: c, image: i, ports: [{name: web, containerPort: 8080}]}]}, status: {phase: Running, podIP: 10.0.0.31, podIPs: [{ip: 10.0.0.31}, {ip: "fd00::31"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: in-1, labels: {istio: in}}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.3, podIPs: [{ip: 10.0.0.3}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {topology.kubernetes.io/region: r1}}, spec: {podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24]}, status: {addresses: [{type: InternalIP, address: 10.9.0.1}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: bare-1, labels: {kubernetes.io/service-name: bare}}, addressType: IPv4, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.0.0.41], conditions: {ready: true}, nodeName: n1, hostname: bare-1}]}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: heads-1, labels: {kubernetes.io/service-name: heads}}, addressType: IPv4, ports: [{name: tcp, port: 9090}], endpoints: [{addresses: [10.0.0.31]}]}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: picks}, spec: {hosts: [picks.com], location: MESH_INTERNAL, resolution: DNS, workloadSelector: {labels: {app: web}}, ports: [{number: 80, name: http, protocol: HTTP}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: weighs}, spec: {hosts: [weighs.com], location: MESH_INTERNAL, resolution: STATIC, endpoints: [{address: 192.0.2.51, weight: 4, ports: {http: 8080}}, {address: "fd00::51", weight: 3, network: n2, labels: {security.istio.io/tlsMode: istio}}], addresses: [192.0.2.50, "2001:db8::/64"], ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8000}]}}
---
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: w, labels: {app: web}}, spec: {address: 192.0.2.61, weight: 2, ports: {http: 8080}, locality: r1/z1, labels: {app: w}}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: door}, spec: {gatewayClassName: sallyport, addresses: [{value: 192.0.2.90}], listeners: [{name: http, port: 80, protocol: HTTP, hostname: "*.door.com"}, {name: dns, port: 53, protocol: UDP}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: out}, spec: {gatewayClassName: sallyport-egress, listeners: [{name: http, port: 80, protocol: HTTP}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: door}, spec: {parentRefs: [{name: door}], hostnames: [a.door.com], rules: [{matches: [{path: {type: PathPrefix, value: /a}, headers: [{name: x, value: a}]}], timeouts: {request: 3s}, backendRefs: [{name: web, port: 80, weight: 2}, {name: bare, port: 80}]}, {filters: [{type: RequestRedirect, requestRedirect: {hostname: b.door.com, port: 8443, statusCode: 301}}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: out}, spec: {parentRefs: [{name: out}], hostnames: [out.com], rules: [{filters: [{type: URLRewrite, urlRewrite: {hostname: r.out.com}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: r.out.com, port: 443}]}]}}
`

// nasty are values that are none of what a field is for.
var nasty = []any{
	"", " ", "none", "10.0.0", "10.0.0.256", "010.0.0.1", "fe80::1%eth0", "10.0.0.7/33", "[::1]", "a b", "a..b", "-a.com", "*", "*.*", "a.com:80", "unix:///x", "/", "a\nb", "a\x00b", "%REQ(", "(", "ü.com", strings.Repeat("a", 300), strings.Repeat("a.", 200) + "com",
	-1, 0, 65536, 70000, 2147483647, 4294967295, 1e18, -2147483648, 0.5, true, false, nil, "0s", "-1s", "0.0000001s", "1000000h", []any{}, map[string]any{},
}

// spoil replaces one value somewhere below, or a key, by something nasty. It counts down to the one that is meant, and gives what is left.
func spoil(at any, left int, by any) (any, int) {
	switch v := at.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if v[k], left = spoil(v[k], left, by); left < 0 {
				return v, left
			}
		}
	case []any:
		for i := range v {
			if v[i], left = spoil(v[i], left, by); left < 0 {
				return v, left
			}
		}
	default:
		if left == 0 {
			return by, -1
		}
		return at, left - 1
	}
	return at, left
}

// leaves counts the values below.
func leaves(at any) (n int) {
	switch v := at.(type) {
	case map[string]any:
		for _, x := range v {
			n += leaves(x)
		}
	case []any:
		for _, x := range v {
			n += leaves(x)
		}
	default:
		return 1
	}
	return n
}

// spoilable are objects of all kinds, each as YAML reads it.
func spoilable(t *testing.T) (out []map[string]any) {
	t.Helper()
	add := func(text string) {
		o := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		out = append(out, o)
	}
	for range 4 { // as many as the others together, or so
		for doc := range strings.SplitSeq(kubernetes, "\n---\n") {
			add(doc)
		}
	}
	for _, kind := range []string{"ServiceEntry", "WorkloadEntry", "DestinationRule", "Sidecar", "VirtualService", "Gateway", "EgressPolicy", "AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication"} {
		for _, f := range fields.Of(kind).Fields {
			if one, _, ok := pairOf(kind, f.Path); ok && f.Fate == fields.Applied {
				add("apiVersion: " + fields.Of(kind).API + "\nkind: " + kind + "\nmetadata: {name: x, namespace: default}\nspec: " + one)
			}
		}
	}
	return out
}

// spoilt spoils one or two values of an object, and none of what says what it is.
func spoilt(of map[string]any, random *rand.Rand) string {
	text, _ := json.Marshal(of)
	o := map[string]any{}
	_ = json.Unmarshal(text, &o)
	for range 1 + random.IntN(2) {
		rest := map[string]any{}
		for _, k := range []string{"spec", "status", "endpoints", "ports", "addressType"} {
			if o[k] != nil {
				rest[k] = o[k]
			}
		}
		if n := leaves(rest); n > 0 {
			_, _ = spoil(rest, random.IntN(n), nasty[random.IntN(len(nasty))])
		}
		for k, v := range rest {
			o[k] = v
		}
	}
	text, _ = json.Marshal(o)
	return string(text)
}

// standing is a registry of objects that nobody spoilt.
type standing struct {
	registry *registry.Registry
	objects  map[config.Key]*config.Object
}

func stand(t *testing.T) standing {
	t.Helper()
	settings, err := mesh.Parse([]byte(folders))
	if err != nil {
		t.Fatal(err)
	}
	r := decode.File("a.yaml", []byte(around+certificates()+"---"+kubernetes))
	for _, f := range r.Findings {
		t.Fatal(f)
	}
	s := standing{registry.New(&settings), map[config.Key]*config.Object{}}
	var all []config.Change
	for i := range r.Objects {
		o := &r.Objects[i]
		s.objects[o.Key] = o
		all = append(all, config.Change{Key: o.Key, Object: o})
	}
	snapshot, _ := s.registry.Apply(all)
	if err := refusedBy(snapshot, true); err != nil {
		t.Fatalf("what nobody spoilt %v", err)
	}
	return s
}

// with asks what an object makes of it, and puts back what stood in its place.
func (s standing) with(o *config.Object, rules bool) error {
	snapshot, _ := s.registry.Apply([]config.Change{{Key: o.Key, Object: o}})
	defer s.registry.Apply([]config.Change{{Key: o.Key, Object: s.objects[o.Key]}})
	return refusedBy(snapshot, rules)
}

// spoilings is how many objects are spoilt.
func spoilings() int {
	if registrytest.Raced || testing.Short() {
		return 60
	}
	return 400
}

// TestSpoiltObjectsHarmNobody holds that, whatever objects say, what proxies are given is what Envoy takes: of wrong values admission says
// which, and what to do, and one that it lets by makes no resource that would be refused, with all that came along.
func TestSpoiltObjectsHarmNobody(t *testing.T) {
	t.Parallel()
	s, objects, random := stand(t), spoilable(t), rand.New(rand.NewPCG(28, 1))
	for range spoilings() {
		text := spoilt(objects[random.IntN(len(objects))], random)
		read := decode.File("spoilt.yaml", []byte(text))
		for i := range read.Objects {
			o := &read.Objects[i]
			findings := admission.Validate(*o)
			for _, f := range findings {
				if f.Message == "" || f.Fix == "" {
					t.Errorf("%s:\nhalf a finding: %#v", text, f)
				}
			}
			if admission.Refused(findings) {
				if o = admission.ClosedStandIn(*o, findings); o == nil {
					continue
				}
			}
			if err := s.with(o, true); err != nil {
				t.Errorf("%s\n%v", text, err)
			}
		}
	}
}

// TestUnjudgedAddressesHarmNobody holds that the registry takes nothing of Kubernetes' own objects for an address or a port that is none, also
// where nobody judged them before.
func TestUnjudgedAddressesHarmNobody(t *testing.T) {
	t.Parallel()
	s, random := stand(t), rand.New(rand.NewPCG(28, 2))
	objects := slices.DeleteFunc(spoilable(t), func(o map[string]any) bool {
		return o["apiVersion"] != "v1" && o["apiVersion"] != "discovery.k8s.io/v1"
	})
	for range spoilings() {
		text := spoilt(objects[random.IntN(len(objects))], random)
		read := decode.File("spoilt.yaml", []byte(text))
		for i := range read.Objects {
			if err := s.with(&read.Objects[i], false); err != nil {
				t.Errorf("%s\n%v", text, err)
			}
		}
	}
}

// takers are proxies of all roles that see the objects of these tests.
var takers = []translate.Node{
	{ID: "sidecar~10.0.0.1~app.default~default.svc.cluster.local", Namespace: "default", Labels: map[string]string{"app": "x", "istio-locality": "r1.z1"}},
	{ID: "sidecar~10.0.0.31~web-1.default~default.svc.cluster.local", Namespace: "default", Labels: map[string]string{"app": "web"}},
	{ID: "router~10.0.0.2~istio-egressgateway.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", Labels: map[string]string{"istio": "egress"}},
	{ID: "router~10.0.0.3~in.default~default.svc.cluster.local", Namespace: "default", Labels: map[string]string{"istio": "in"}},
	{ID: "ztunnel~10.0.0.7~agent.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", Serves: "default", OwnTables: true},
}

// refusedBy is the first of what proxies are given that Envoy would refuse: a message, however deep, that breaks the rules beside it, or
// what refusal says. nil: none is.
func refusedBy(s *registry.Snapshot, rules bool) (found error) {
	for _, node := range takers {
		for _, v := range []*translate.View{translate.NewTranslator().Build(s, translate.Classify(s, node)), translate.BuildPolicies(s, translate.PolicedBy(s, node))} {
			for _, kind := range resource.Types() {
				if kind == resource.Name {
					continue
				}
				v.Walk(kind, func(r *resource.Resource) bool {
					if err := broken(r, rules); err != nil {
						found = fmt.Errorf("makes %s %q for %s, which Envoy refuses: %w", r.Type.URL(), r.Name, node.ID, err)
					}
					return found == nil
				})
				if found != nil {
					return found
				}
			}
		}
	}
	return nil
}

func broken(r *resource.Resource, rules bool) error {
	whole, err := r.Any().UnmarshalNew()
	if err != nil {
		return err
	}
	c, is := whole.(*clusterv3.Cluster)
	named := is && (c.GetType() == clusterv3.Cluster_STRICT_DNS || c.GetType() == clusterv3.Cluster_LOGICAL_DNS)
	return protorange.Range(whole.ProtoReflect(), func(p protopath.Values) error {
		part, ok := p.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok {
			return nil
		}
		m := part.Interface()
		if v, ok := m.(interface{ ValidateAll() error }); ok && rules {
			if err := v.ValidateAll(); err != nil {
				return err
			}
		}
		return refusal(m, named)
	})
}

// refusal says what Envoy refuses of addresses, ports and weights beyond the rules beside its messages: all but a cluster that looks names
// up takes addresses only, and the weights of a group have to fit in 32 bits. named says that names are looked up.
func refusal(m proto.Message, named bool) error {
	switch m := m.(type) {
	case *corev3.SocketAddress:
		addr, err := netip.ParseAddr(m.Address)
		if err != nil && (!named || m.Address == "") || addr.Zone() != "" {
			return fmt.Errorf("%q is no address", m.Address)
		}
		if m.GetPortValue() > 65535 {
			return fmt.Errorf("%d is no port", m.GetPortValue())
		}
	case *corev3.CidrRange:
		addr, err := netip.ParseAddr(m.AddressPrefix)
		if err != nil || addr.Zone() != "" || int(m.PrefixLen.GetValue()) > addr.BitLen() {
			return fmt.Errorf("%s/%d is no range", m.AddressPrefix, m.PrefixLen.GetValue())
		}
	case *endpointv3.LocalityLbEndpoints:
		var sum uint64
		for _, e := range m.LbEndpoints {
			sum += uint64(max(e.LoadBalancingWeight.GetValue(), 1))
		}
		if sum > math.MaxUint32 {
			return fmt.Errorf("the weights' sum is %d", sum)
		}
	}
	return nil
}
