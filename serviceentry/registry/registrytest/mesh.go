package registrytest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	typev1beta1 "istio.io/api/type/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Mesh makes a whole mesh as users have one, with everything that may be written in it: Services with their endpoints, gateways,
// entries of all kinds, rules, Sidecars, nodes, and settings. Few names and addresses, so that things collide; what only an API server
// gives out, such as the addresses of Services, collides with nothing but what entries say.
func Mesh(seed uint64) (*World, mesh.Config) {
	w := NewWorld(seed)
	for range 1 + w.rand.IntN(3) {
		w.put(w.made(config.KindNode, "", pick(w, []string{"n1", "n2", "n3"}), w.node(), nil))
	}
	w.gateways()
	for range 1 + w.rand.IntN(5) {
		w.meshService()
	}
	for range 3 + w.rand.IntN(14) {
		w.put(w.aged(w.made(config.KindServiceEntry, pick(w, meshNamespaces), fmt.Sprintf("e%d", w.rand.IntN(20)), w.meshEntry(), w.meshAnnotations())))
	}
	for range w.rand.IntN(6) {
		w.put(w.aged(w.made(config.KindDestinationRule, pick(w, meshNamespaces), fmt.Sprintf("r%d", w.rand.IntN(6)), w.meshRule(), nil)))
	}
	if w.rand.IntN(3) == 0 {
		w.routedEntries()
		for range 1 + w.rand.IntN(4) {
			ns, routes := w.meshRoutes()
			w.put(w.aged(w.made(config.KindVirtualService, ns, fmt.Sprintf("v%d", w.rand.IntN(6)), routes, nil)))
		}
	}
	for range w.rand.IntN(4) {
		w.put(w.aged(w.made(config.KindSidecar, pick(w, meshNamespaces), fmt.Sprintf("s%d", w.rand.IntN(3)), w.meshSidecar(), nil)))
	}
	for range w.rand.IntN(3) {
		w.put(w.made(config.KindWorkloadEntry, pick(w, meshNamespaces), fmt.Sprintf("w%d", w.rand.IntN(3)), w.workload(), nil))
	}
	if w.rand.IntN(2) == 0 {
		w.put(w.made(config.KindSecret, pick(w, meshNamespaces), "client", w.secret(), nil))
	}
	if w.rand.IntN(3) == 0 {
		w.put(w.made(config.KindNamespace, "", pick(w, meshNamespaces), &corev1.Namespace{}, w.meshAnnotations()))
	}
	settings := w.settings()
	settings.ExportedTables = int(seed % 3)
	if w.rand.IntN(3) == 0 {
		for range 1 + w.rand.IntN(4) {
			w.put(w.serviceRoute(pick(w, meshNamespaces), meshNamespaces, []string{"web", "db", "api"}, []uint32{80, 443, 5432, 8080, 9000}))
		}
	}
	return w, settings
}

var meshNamespaces = []string{"default", "team-a", "team-b", "store", "istio-system"}

func (w *World) put(o *config.Object) { w.Objects[o.Key] = o }

// aged is an object that was written at some time: which of two is older decides.
func (w *World) aged(o *config.Object) *config.Object {
	if w.rand.IntN(3) > 0 {
		o.Created = time.Unix(int64(1_600_000_000+w.rand.IntN(8)), 0)
	}
	return o
}

// gateways are the mesh's and one of a team, at times without pods, at times not there.
func (w *World) gateways() {
	for _, at := range [][2]string{{"istio-system", "istio-egressgateway"}, {"team-a", "own-gateway"}} {
		if w.rand.IntN(6) == 0 {
			continue
		}
		s := w.gateway()
		s.Spec.ClusterIP = w.clusterIP()
		s.Spec.Selector = map[string]string{"istio": at[1]}
		if w.rand.IntN(3) == 0 {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "http", Port: 80})
		}
		w.put(w.made(config.KindService, at[0], at[1], s, nil))
		if w.rand.IntN(6) > 0 {
			p := &corev1.Pod{}
			p.Labels, p.Spec.ServiceAccountName, p.Status.PodIP = s.Spec.Selector, at[1], "10.4.0.2"
			w.put(w.made(config.KindPod, at[0], at[1]+"-1", p, nil))
		}
	}
}

// clusterIP is an address that no other Service has, and that entries may write: they are the first of MeshAddresses.
func (w *World) clusterIP() string {
	w.version++
	return fmt.Sprintf("10.96.0.%d", w.version%250)
}

// meshService is a Service with its endpoints.
func (w *World) meshService() {
	ns, name := pick(w, meshNamespaces), pick(w, []string{"web", "db", "api"})
	s := &corev1.Service{}
	kind := w.rand.IntN(5)
	switch kind {
	case 0:
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, pick(w, []string{"a.test", "x.wild.test", "web.default.svc.cluster.local", "api.store.svc.cluster.local", "nobody.test"})
	case 1:
		s.Spec.ClusterIP = corev1.ClusterIPNone
	default:
		s.Spec.ClusterIP = w.clusterIP()
	}
	var ports []discoveryv1.EndpointPort
	for _, p := range w.someOf(meshServicePorts) {
		if w.rand.IntN(3) == 0 && kind > 1 {
			p.TargetPort = intstr.FromInt32(9090)
		}
		s.Spec.Ports = append(s.Spec.Ports, p)
		ports = append(ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port})
	}
	annotations := map[string]string{}
	if w.rand.IntN(4) == 0 {
		annotations["networking.istio.io/exportTo"] = pick(w, []string{".", "*", "team-a", "~"})
	}
	w.put(w.aged(w.made(config.KindService, ns, name, s, annotations)))
	if kind == 0 || w.rand.IntN(4) == 0 {
		return
	}
	slice := w.made(config.KindEndpointSlice, ns, name+"-1", &discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4, Ports: ports,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{fmt.Sprintf("10.4.%d.%d", w.rand.IntN(3), 10+w.rand.IntN(40))}}},
	}, nil)
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: name}
	w.put(slice)
}

var appTLS = "tls"

var meshServicePorts = []corev1.ServicePort{
	{Name: "http", Port: 80}, {Name: "https", Port: 443}, {Name: "tls", Port: 443, AppProtocol: &appTLS}, {Name: "tcp", Port: 5432}, {Name: "grpc", Port: 9000},
	{Name: "http-alt", Port: 8080}, {Name: "mysql", Port: 3306}, {Name: "udp", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "tcp-odd", Port: 7777},
}

// someOf are a few of a list, no port twice.
func (w *World) someOf(list []corev1.ServicePort) (out []corev1.ServicePort) {
	for _, p := range list {
		if w.rand.IntN(3) == 0 && !slices.ContainsFunc(out, func(o corev1.ServicePort) bool { return o.Port == p.Port }) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		out = list[:1]
	}
	return out
}

// MeshHosts are what the entries of a Mesh register, and MeshAddresses what they write.
var (
	MeshHosts = []string{
		"a.test", "b.test", "*.test", "x.wild.test", "*.wild.test", "*.deep.wild.test", "y.deep.wild.test", "h-71.example", "h-159.example", "*.example",
		"web.store", "web", "*.store", "*.web.store", "db-0.db.store", "web.store.svc.cluster.local", "old.team-a.svc.cluster.local", "*.db.store.svc.cluster.local",
		"x.localhost", "*.localhost", "api.default", "Upper.Test",
	}
	MeshAddresses = []string{
		"203.0.113.7", "203.0.113.8", "203.0.113.64/28", "203.0.113.64/26", "203.0.113.70", "203.0.113.0/24", "10.96.0.1", "10.96.0.4", "10.96.0.0/24", "10.4.0.10", "192.168.7.0/24", "192.168.7.7",
		"2001:db8::7", "2001:db8:1::/64", "240.240.0.9", "240.240.7.0/24",
	}
)

var meshEntryPorts = []*networking.ServicePort{
	{Number: 80, Name: "http", Protocol: "HTTP"}, {Number: 80, Name: "tcp80", Protocol: "TCP"}, {Number: 443, Name: "https", Protocol: "HTTPS"}, {Number: 443, Name: "tls", Protocol: "TLS"},
	{Number: 443, Name: "tcp443", Protocol: "TCP"}, {Number: 443, Name: "http443", Protocol: "HTTP"}, {Number: 5432, Name: "pg", Protocol: "TCP"}, {Number: 5432, Name: "tls-pg", Protocol: "TLS"}, {Number: 9000, Name: "grpc", Protocol: "GRPC"},
	{Number: 8080, Name: "http2", Protocol: "HTTP2"}, {Number: 8080, Name: "tcp8080", Protocol: "TCP"}, {Number: 3306, Name: "mysql", Protocol: "MYSQL"}, {Number: 7777, Name: "mongo", Protocol: "MONGO"},
	{Number: 53, Name: "udp", Protocol: "UDP"}, {Number: 9000, Name: "tls9000", Protocol: "TLS"}, {Number: 80, Name: "web", Protocol: "GRPC-WEB"},
}

func (w *World) meshEntry() *networking.ServiceEntry {
	e := &networking.ServiceEntry{
		Location:   pick(w, []networking.ServiceEntry_Location{networking.ServiceEntry_MESH_EXTERNAL, networking.ServiceEntry_MESH_EXTERNAL, networking.ServiceEntry_MESH_EXTERNAL, networking.ServiceEntry_MESH_INTERNAL}),
		Resolution: pick(w, []networking.ServiceEntry_Resolution{networking.ServiceEntry_DNS, networking.ServiceEntry_DNS, networking.ServiceEntry_NONE, networking.ServiceEntry_STATIC, networking.ServiceEntry_DNS_ROUND_ROBIN, networking.ServiceEntry_DYNAMIC_DNS}),
		ExportTo:   pick(w, [][]string{nil, nil, {"*"}, {"."}, {"team-b"}, {".", "team-a"}, {"~"}}),
	}
	for range 1 + w.rand.IntN(2) {
		if h := pick(w, MeshHosts); !slices.Contains(e.Hosts, h) {
			e.Hosts = append(e.Hosts, h)
		}
	}
	wild := slices.ContainsFunc(e.Hosts, func(h string) bool { return strings.HasPrefix(h, "*") })
	if wild && w.rand.IntN(8) > 0 {
		e.Resolution = pick(w, []networking.ServiceEntry_Resolution{networking.ServiceEntry_NONE, networking.ServiceEntry_NONE, networking.ServiceEntry_DYNAMIC_DNS, networking.ServiceEntry_STATIC})
	}
	for _, p := range meshEntryPorts {
		if w.rand.IntN(5) == 0 && !slices.ContainsFunc(e.Ports, func(o *networking.ServicePort) bool { return o.Number == p.Number }) {
			port := &networking.ServicePort{Number: p.Number, Name: p.Name, Protocol: p.Protocol}
			if w.rand.IntN(5) == 0 {
				port.TargetPort = 8443
			}
			e.Ports = append(e.Ports, port)
		}
	}
	if len(e.Ports) == 0 {
		e.Ports = []*networking.ServicePort{{Number: 443, Name: "https", Protocol: "HTTPS"}}
	}
	for w.rand.IntN(3) == 0 {
		if a := pick(w, MeshAddresses); !slices.Contains(e.Addresses, a) {
			e.Addresses = append(e.Addresses, a)
		}
	}
	switch {
	case e.Resolution == networking.ServiceEntry_NONE:
	case w.rand.IntN(6) == 0:
		e.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"istio": "app"}}
	case e.Resolution == networking.ServiceEntry_STATIC || w.rand.IntN(5) == 0:
		e.Endpoints = []*networking.WorkloadEntry{{Address: pick(w, []string{"203.0.113.9", "203.0.113.7", "10.4.0.10", "10.1.0.1", "127.0.0.1", "10.96.0.1"}), Ports: pick(w, []map[string]uint32{nil, {"http": 8081}})}}
		if e.Resolution != networking.ServiceEntry_STATIC && w.rand.IntN(2) == 0 {
			e.Endpoints[0].Address = pick(w, []string{"far.test", "b.test", "metadata.google.internal"})
		}
		if w.rand.IntN(3) == 0 {
			e.Endpoints = append(e.Endpoints, &networking.WorkloadEntry{Address: "203.0.113.10"})
		}
	}
	if w.rand.IntN(6) == 0 {
		e.SubjectAltNames = []string{"other.test"}
	}
	return e
}

func (w *World) meshAnnotations() map[string]string {
	if w.rand.IntN(5) < 3 {
		return nil
	}
	return map[string]string{registry.GatewayAnnotation: pick(w, []string{registry.ExitDirect, registry.ExitDirect, "team-a/own-gateway", "istio-system/istio-egressgateway", "store/web", "store/none"})}
}

func (w *World) meshRule() *networking.DestinationRule {
	r := &networking.DestinationRule{Host: pick(w, append([]string{"web.store.svc.cluster.local", "db"}, MeshHosts...)), ExportTo: pick(w, [][]string{nil, {"*"}, {"."}, {"team-a"}, {"team-a", "team-b"}}), TrafficPolicy: &networking.TrafficPolicy{}}
	tls := &networking.ClientTLSSettings{
		Mode: pick(w, []networking.ClientTLSSettings_TLSmode{networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_DISABLE, networking.ClientTLSSettings_MUTUAL, networking.ClientTLSSettings_ISTIO_MUTUAL}),
		Sni:  pick(w, []string{"", "", "sni.test"}), CredentialName: pick(w, []string{"", "client", "missing"}),
	}
	if tls.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL || tls.Mode == networking.ClientTLSSettings_DISABLE {
		tls.Sni, tls.CredentialName = "", ""
	}
	switch w.rand.IntN(4) {
	case 0:
		r.TrafficPolicy.PortLevelSettings = []*networking.TrafficPolicy_PortTrafficPolicy{{Port: &networking.PortSelector{Number: pick(w, []uint32{80, 443, 5432, 8080})}, Tls: tls}}
	case 1: // nothing about TLS
	default:
		r.TrafficPolicy.Tls = tls
	}
	if w.rand.IntN(4) == 0 {
		r.TrafficPolicy.ConnectionPool = &networking.ConnectionPoolSettings{
			Tcp:  &networking.ConnectionPoolSettings_TCPSettings{MaxConnections: 5, ConnectTimeout: durationpb.New(time.Second)},
			Http: &networking.ConnectionPoolSettings_HTTPSettings{MaxRequestsPerConnection: 3, H2UpgradePolicy: pick(w, []networking.ConnectionPoolSettings_HTTPSettings_H2UpgradePolicy{networking.ConnectionPoolSettings_HTTPSettings_DEFAULT, networking.ConnectionPoolSettings_HTTPSettings_UPGRADE})},
		}
		r.TrafficPolicy.OutlierDetection = &networking.OutlierDetection{Consecutive_5XxErrors: wrapperspb.UInt32(3)}
		r.TrafficPolicy.LoadBalancer = &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{
			HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName{HttpHeaderName: "x-user"},
		}}}
	}
	if w.rand.IntN(4) == 0 {
		r.WorkloadSelector = &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"istio": pick(w, []string{"istio-egressgateway", "app"})}}
	}
	return r
}

func (w *World) meshSidecar() *networking.Sidecar {
	s := &networking.Sidecar{}
	lists := [][]string{{"./*"}, {"*/*"}, {"./*", "istio-system/*"}, {"team-a/*.wild.test", "./*"}, {"*/*", "~/a.test"}, {"*/a.test", "store/*"}, {"~/*"}, {"*/*.test"}, {"*/*", "~store/*"}}
	for _, port := range [...]uint32{0, 443, 80, 5432} {
		if w.rand.IntN(3) == 0 || (port == 0 && w.rand.IntN(4) > 0) {
			l := &networking.IstioEgressListener{Hosts: pick(w, lists)}
			if port > 0 {
				l.Port = &networking.SidecarPort{Number: port, Name: "p", Protocol: "TCP"}
			}
			if w.rand.IntN(8) == 0 && port > 0 {
				l.Bind = pick(w, []string{"127.0.0.1", "0.0.0.0"})
			}
			s.Egress = append(s.Egress, l)
		}
	}
	slices.SortStableFunc(s.Egress, func(a, b *networking.IstioEgressListener) int {
		return map[bool]int{true: 1}[a.Port == nil] - map[bool]int{true: 1}[b.Port == nil]
	})
	switch w.rand.IntN(4) {
	case 0:
		s.OutboundTrafficPolicy = &networking.OutboundTrafficPolicy{Mode: networking.OutboundTrafficPolicy_REGISTRY_ONLY}
	case 1:
		s.OutboundTrafficPolicy = &networking.OutboundTrafficPolicy{Mode: networking.OutboundTrafficPolicy_ALLOW_ANY}
	}
	if w.rand.IntN(2) == 0 {
		s.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"istio": "app"}}
	}
	return s
}

// settings are the mesh's.
func (w *World) settings() mesh.Config {
	c := mesh.Default()
	c.OutboundAllowAny = w.rand.IntN(2) == 0
	c.OutboundDynamicDNS = c.OutboundAllowAny && w.rand.IntN(3) == 0
	if w.rand.IntN(2) == 0 {
		c.Exports = mesh.IstioExports()
	} else if w.rand.IntN(3) == 0 {
		c.Exports = mesh.Exports{{Namespaces: []string{"team-a"}, Hosts: []host.Name{"*.wild.test"}}, {Namespaces: []string{"store"}, Hosts: []host.Name{host.Any}, ResolvedOnly: true}}
	}
	if w.rand.IntN(8) == 0 {
		c.DefaultGateway = mesh.Gateway{}
	}
	if w.rand.IntN(4) == 0 {
		c.DNS.AllowPrivate = []string{"10.1.0.0/16", "a.test"}
	}
	if w.rand.IntN(4) == 0 {
		c.DNS.AllowPrivateFor = map[string][]string{"team-a": {"x.wild.test", "192.168.0.0/16"}, "store": {"10.4.0.0/16"}}
	}
	if w.rand.IntN(4) == 0 {
		c.ClusterNetworks = []netip.Prefix{netip.MustParsePrefix("10.4.0.0/16"), netip.MustParsePrefix("10.96.0.0/16")}
	}
	if w.rand.IntN(4) == 0 {
		c.TrustDomainAliases = []string{"old.local"}
	}
	if w.rand.IntN(6) == 0 {
		c.DefaultServiceEntryExportTo = []string{"."}
		c.DefaultServiceExportTo = c.DefaultServiceEntryExportTo
	}
	return c
}
