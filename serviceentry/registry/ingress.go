package registry

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// Ingress is who an ingress gateway's pods are: their namespace, the labels by which Gateway objects tell them apart, and the
// Services that say where they listen. It is comparable.
type Ingress struct {
	Namespace string
	Labels    string // selectorText; what no Gateway asks for is left out
	Service   Ref
	More      string // the names of the other Services of the pods, in order, "," between
	// Policed is an AuthorizationPolicy that is for the pods, "NAMESPACE/NAME", where they open UDP: nobody could be held to it there, so nothing
	// comes in. "" where there is none.
	Policed string
	// Sessions is how many clients each port for UDP has at a time in one of the pods; 0 where they open none.
	Sessions uint32
	// OnDemand says that their agents find certificates by the names that clients say.
	OnDemand bool
	// Topology is what they say of the proxies in front of them, in place of what the mesh says.
	Topology mesh.GatewayTopology
}

// IngressSettings are the mesh's for ingress gateways, and over them what a gateway's pods say.
func (s *Snapshot) IngressSettings(i Ingress) mesh.Ingress { return s.Mesh.Ingress.With(i.Topology) }

// PodLabels are the labels.
func (i Ingress) PodLabels() map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(i.Labels, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			out[k] = v
		}
	}
	return out
}

// Services are those of the pods: the one by which they would be an egress gateway comes first.
func (i Ingress) Services() (out []Ref) {
	if i.Service.IsZero() {
		return nil
	}
	out = append(out, i.Service)
	for name := range strings.SplitSeq(i.More, ",") {
		if name != "" {
			out = append(out, Ref{i.Namespace, name})
		}
	}
	return out
}

// Has says whether a Service is one of the pods'.
func (i Ingress) Has(ref Ref) bool { return slices.Contains(i.Services(), ref) }

// moreServices are the names of the Services that select pods, but for one.
func (s *Snapshot) moreServices(ns string, labels map[string]string, but Ref) string {
	var names []string
	for _, k := range s.GatewaysOf(ns, labels) {
		if k.Ref != but {
			names = append(names, k.Ref.Name)
		}
	}
	return strings.Join(names, ",")
}

// CatchAllName is what connections to a port that say nothing are asked for by: of a server that passes everything on.
func CatchAllName(port uint32) string { return ":" + strconv.FormatUint(uint64(port), 10) }

// IngressFor gives what a router's pods are as an ingress gateway, by their labels and Service, and the sessions of UDP that each may have (0
// where nobody says); false where no Gateway object selects them, or where they are an egress gateway: something leaves by the Service, or is
// led to it (see ledTo).
func (s *Snapshot) IngressFor(ns string, labels map[string]string, service Ref, sessions uint32) (Ingress, bool) {
	if !service.IsZero() && (service == Ref(s.Mesh.DefaultGateway) || s.IsExit(service) || s.ledTo(service, labels)) {
		return Ingress{}, false
	}
	asked := map[string]string{}
	selected, datagrams := false, 0
	for _, g := range s.gateways {
		for k := range g.Selector {
			if v, has := labels[k]; has {
				asked[k] = v
			}
		}
		if s.mayOpen(g, ns) && selects(g.Selector, labels) {
			selected, datagrams = true, datagrams+g.datagrams
		}
	}
	i := Ingress{Namespace: ns, Labels: selectorText(asked), Service: service}
	if selected {
		i.More = s.moreServices(ns, labels, service)
	}
	if datagrams > 0 {
		i.Policed = s.policed(ns, labels)
		i.Sessions = sessionsOf(cmp.Or(sessions, defaultSessions), datagrams)
	}
	return i, selected
}

// countDatagrams counts the ports for UDP that a Gateway opens.
func (g *Gateway) countDatagrams() {
	if g == nil {
		return
	}
	g.datagrams = 0
	for server := range g.all() {
		if server.Serves == ServesDatagrams {
			g.datagrams++
		}
	}
}

// defaultSessions is how many sessions of UDP a pod may have whose agent says nothing: what the fewest files that are common allow.
const defaultSessions = 4096

// sessionsOf is the share that each port has of a pod's sessions: a quarter, or less where there are more than four ports. It is in steps of
// two, so that a port that comes or goes seldom changes those of the others, which ends their sessions.
func sessionsOf(all uint32, ports int) uint32 {
	return max(all>>max(2, bits.Len(uint(ports-1))), 1)
}

// policed is an AuthorizationPolicy by which a workload denies something, or has somebody asked: "NAMESPACE/NAME", "" for none.
func (s *Snapshot) policed(ns string, labels map[string]string) string {
	for _, p := range s.Authorizing(ns, labels).Enforced() {
		if p.Action != authz.Audit {
			return p.Key.Namespace + "/" + p.Key.Name
		}
	}
	return ""
}

// PolicedGateway is the AuthorizationPolicy for which nothing comes in by UDP at a Gateway of the Gateway API, by the labels that its pods
// are deployed with; "" where there is none.
func (s *Snapshot) PolicedGateway(key config.Key) string {
	if o := s.World().Object(key); o != nil {
		return s.policed(key.Namespace, gatewayapi.PodLabels(o))
	}
	return ""
}

// Unrefusable says that nothing may come in by UDP, since what has no room for its records is to be refused: a proxy does not do that with UDP.
func (s *Snapshot) Unrefusable() bool { return s.Mesh.Audit.WhenFull == mesh.Deny }

// before puts Gateways in order of their age.
func (g *Gateway) before(other *Gateway) int {
	return cmp.Or(g.Created.Compare(other.Created), g.Key.Compare(other.Key))
}

// gatewaysOrder puts Gateways in the order in which they have what several want at gateways of a namespace: its own, those of the root namespace, all others; among
// equals by their age, which somebody may have before he writes what he wants.
func (s *Snapshot) gatewaysOrder(ns string) func(a, b *Gateway) int {
	rank := func(g *Gateway) rank { return s.rankOfNamespace(g.Key.Namespace, ns) }
	return func(a, b *Gateway) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), a.before(b)) }
}

// mayOpen says whether a Gateway of another namespace counts at gateways of one.
func (s *Snapshot) mayOpen(g *Gateway, ns string) bool {
	if g.Key.Kind == config.KindKubeGateway {
		return g.Key.Namespace == ns
	}
	return g.Key.Namespace == ns || !s.Mesh.Ingress.OwnNamespace
}

// LedFrom says whether VirtualServices lead from Gateways that a gateway's pods open to a host of the registry.
func (s *Snapshot) LedFrom(i Ingress, host string) bool {
	list, _ := s.leading.Get(host)
	if len(list) == 0 {
		return false
	}
	opened := s.Opened(i)
	return slices.ContainsFunc(list, func(v *VirtualService) bool {
		return v.ExportTo.Includes(i.Namespace) && slices.ContainsFunc(v.Gateways, func(g string) bool { return len(opened.of[g]) > 0 })
	})
}

// IsGateway says whether a Service is of gateways, as its own namespace or the root namespace says.
func (s *Snapshot) IsGateway(ref Ref) bool {
	if s.IsExit(ref) || ref == Ref(s.Mesh.DefaultGateway) {
		return true
	}
	k, ok := s.KubeService(ref)
	if !ok {
		return false
	}
	for _, g := range s.gateways {
		if s.says(g, ref.Namespace) && g.Selects(k) {
			return true
		}
	}
	return false
}

// IngressesIn gives the Services of a namespace whose pods Gateway objects select, in name order.
func (s *Snapshot) IngressesIn(ns string) (out []Ref) {
	s.kube.in(ns, func(k *KubeService) bool {
		for _, g := range s.gateways {
			if s.mayOpen(g, ns) && g.Selects(k) {
				out = append(out, k.Ref)
				break
			}
		}
		return true
	})
	return out
}
