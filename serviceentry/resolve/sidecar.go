package resolve

import (
	"net/netip"
	"slices"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/locality"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Sidecar is who asks: a workload, as far as it changes what happens. Workloads of which all of this is the same are told the
// same.
type Sidecar struct {
	// Namespace is the workload's; "" for one that sees what everybody sees.
	Namespace string

	snap     *registry.Snapshot
	scope    *registry.SidecarScope
	selected registry.SelectorKey
	secrets  registry.SecretAccess
	near     registry.ClientLocation
	node     bool // its proxy is its node's
	stands   bool // it is a waypoint's, whose clients are of any namespace
}

// connector is where the workload's hosts are reached from.
func (a Sidecar) connector() registry.Connector {
	return registry.Connector{Kind: registry.AtSidecar, Namespace: a.Namespace, Secrets: a.secrets, Node: a.node}
}

// AtNode is the workload where its node's proxy serves it. Where its namespace has no tables of its own there, it sees what everybody does.
func (a Sidecar) AtNode() Sidecar {
	a.node = true
	if a.snap.Different(a.Namespace) && !a.snap.TablesAtNodes(a.Namespace) {
		a.Namespace = ""
	}
	return a
}

// At is the workload where that is.
func (a Sidecar) At(near registry.ClientLocation) Sidecar {
	a.near = near
	return a
}

// Workload is the Sidecar of a workload with these labels.
func Workload(s *registry.Snapshot, namespace string, labels map[string]string) Sidecar {
	return Sidecar{Namespace: namespace, snap: s, scope: s.Scope(namespace, labels), selected: s.Selecting(namespace, labels), near: s.ClientLocation(s.Topology().Network(labels), s.Client(labels, ""))}
}

// SidecarIn is that of workloads that a Sidecar object (the zero Key for none) and DestinationRules select.
func SidecarIn(s *registry.Snapshot, namespace string, scope config.Key, selected registry.SelectorKey, secrets registry.SecretAccess) Sidecar {
	return Sidecar{Namespace: namespace, snap: s, scope: s.ScopeByKey(scope), selected: selected, secrets: secrets}
}

// Scope is the Sidecar object that narrows what the workload sees; nil without one.
func (a Sidecar) Scope() *registry.SidecarScope { return a.scope }

// Visible gives the registration of exactly this host that governs it.
func (a Sidecar) Visible(host string) *registry.Service {
	return a.snap.Visible(host, a.Namespace, a.scope)
}

// SidecarHost is everything that what happens to a host at a sidecar depends on. Equal values mean that the same happens.
type SidecarHost struct {
	Service      *registry.Service
	Rule         *registry.DestinationRule     // the DestinationRule that counts there
	Restrictions registry.UpstreamRestrictions // what is left out and closed of the far end
	Connect      time.Duration                 // the mesh's connectTimeout
	Near         registry.ClientLocation       // from where it is connected to

	Gateway             bool             // the host is an egress gateway's own
	Names               []string         // short names of a Kubernetes service, and the names of ExternalName Services that mean the host
	Aliases             []string         // the full ones of those
	LostAddresses       []netip.AddrPort // the addresses that it wrote and another host has
	RegisteredBySeveral bool             // other namespaces registered it too, so the gateway must be told whose registration is meant
	Foreign             bool             // it is another namespace's, which does not decide how its ports are read
	ShutPorts           []uint32         // ports at which a pattern of another namespace would take the host
	MeshTLS
	AllTake  []uint32       // ports of a headless service at which all of its pods take mutual TLS
	Asked    bool           // at a waypoint: EgressPolicies are asked about clients for the host, and what is asked for stays what it is
	Waypoint *WaypointHop   // the waypoint that it is reached through; nil without one
	Led      *SidecarRoutes // what a VirtualService makes of the way to it; nil without one
	// FrontedPods are, of a headless Service at a node, those of its addresses that have a waypoint of their own, in order: what goes there goes by that.
	FrontedPods []FrontedPod
	// Unclaimed is what happens to connections by address that the host does not take: they are nobody's. It is set where single
	// addresses were written for the host, or ports are shut.
	Unclaimed OutboundPolicy
}

// Host gathers what counts for a host; false where the workload does not see it.
func (a Sidecar) Host(host string) (SidecarHost, bool) {
	svc := a.Visible(host)
	if svc == nil {
		return SidecarHost{}, false
	}
	h := a.reached(svc)
	s := a.snap
	h.LostAddresses = s.LostAddresses(svc, a.Namespace, a.scope)
	h.RegisteredBySeveral = a.Means(svc) != ""
	h.Foreign = s.Foreign(svc, a.Namespace) && slices.ContainsFunc(svc.Ports, decidesReading)
	h.ShutPorts = s.Shut(svc, a.Namespace, a.scope)
	if svc.Source.Kind == config.KindService {
		h.Names = shortNames(kubeRef(svc), a.Namespace, svc.Headless())
	}
	for _, ref := range h.aliases(a) {
		h.Names = append(append(h.Names, ref.Host()), shortNames(ref, a.Namespace, false)...)
	}
	h.Names = slices.DeleteFunc(h.Names, func(short string) bool { return a.Visible(short) != nil })
	if shut := len(h.ShutPorts) > 0 || h.Gateway; len(svc.Addresses) > 0 || shut {
		h.Unclaimed = OutboundPolicy{AllowAny: s.AllowAny(a.scope), By: a.outboundPolicyObject(), Dynamic: shut && s.DynamicDNS(a.scope)}
	}
	return h, true
}

// decidesReading says whether how a port is read depends on who registers something at it: names are read at 80 and 443 anyway.
func decidesReading(p registry.Port) bool { return p.Number != 80 && p.Number != 443 }

// SeesAsEverybody says whether a host, whose registrations are given, is to the workload what it is to everybody, without gathering
// what that is. It may say no where it is.
func (a Sidecar) SeesAsEverybody(host string, list []*registry.Service) bool {
	return a.scope == nil && a.selected == "" && a.snap.SeenAlike(host, list, a.Namespace) && !a.StandsApart(host, list)
}

// StandsApart says whether it may make a difference to a host, whose registrations are given, where the workload is.
func (a Sidecar) StandsApart(host string, list []*registry.Service) bool {
	if a.near.Client == (locality.Client{}) {
		return false
	}
	return a.snap.Led(host) || slices.ContainsFunc(list, func(svc *registry.Service) bool {
		near := a.near.For(registry.ServiceAndRule{Service: svc, Rule: a.rule(svc)})
		return near.Client != (locality.Client{})
	})
}

// rule is the DestinationRule that counts for a service.
func (a Sidecar) rule(svc *registry.Service) *registry.DestinationRule {
	if a.node && a.Namespace == "" {
		return a.snap.RuleAtNodes(svc)
	}
	return a.snap.Rule(svc, a.Namespace, a.selected)
}

// Means is the namespace whose registration of a host the gateway is told that is meant; "" where it is told none: the client's certificate says it,
// unless another one is meant. Of a waypoint it never does, so it tells always: told only when somebody else has the host, too, the gateway
// would hear of him before.
func (a Sidecar) Means(svc *registry.Service) string {
	if !svc.Exit.IsZero() && (a.stands || a.snap.RegisteredBySeveral(svc) || (a.scope != nil && svc.Wildcard())) {
		return svc.Namespace
	}
	return ""
}

// Reached gathers what counts once a host was found: its routes follow from it, the ways to find it do not.
func (a Sidecar) Reached(svc *registry.Service) SidecarHost {
	h := a.reached(svc)
	h.aliases(a)
	return h
}

func (a Sidecar) reached(svc *registry.Service) SidecarHost {
	rule := a.rule(svc)
	h := SidecarHost{
		Service: svc, Rule: rule, Connect: a.snap.Mesh.ConnectTimeout, Led: a.led(svc),
		Restrictions: a.snap.UpstreamRestrictions(svc, rule, a.connector()),
		Gateway:      a.isGateway(svc.Host),
	}
	h.Near = h.seenFrom(a.near)
	h.MeshTLS = meshTLS(a.snap, svc)
	h.AllTake = h.allTake(a.snap, svc)
	return h
}

// seenFrom is what counts of where the workload is, for the host itself and what VirtualServices lead it to.
func (h *SidecarHost) seenFrom(near registry.ClientLocation) registry.ClientLocation {
	if h.Led == nil {
		return near.For(registry.ServiceAndRule{Service: h.Service, Rule: h.Rule})
	}
	ends := []registry.ServiceAndRule{{Service: h.Service, Rule: h.Rule}}
	for _, r := range h.Led.Ends {
		ends = append(ends, registry.ServiceAndRule{Service: r.Service, Rule: r.Rule})
	}
	return near.For(ends...)
}

// isGateway says whether a host is the full name of a Service that something leaves by. Whoever registers that name, an egress
// gateway is what connections to its port are for.
func (a Sidecar) isGateway(host string) bool {
	ref, ok := kubeOf(host)
	return ok && a.snap.IsExit(ref)
}

// aliases notes the host's other names.
func (h *SidecarHost) aliases(a Sidecar) []registry.Ref {
	refs := a.snap.Aliases(h.Service.Host, a.Namespace, a.scope)
	for _, ref := range refs {
		h.Aliases = append(h.Aliases, ref.Host())
	}
	return refs
}

// kubeRef gives the Kubernetes service behind a registration.
func kubeRef(svc *registry.Service) registry.Ref {
	return registry.Ref{Namespace: svc.Source.Namespace, Name: svc.Source.Name}
}

// shortNames are what workloads call a Kubernetes service beside its full name, and the pods of a headless one.
func shortNames(ref registry.Ref, namespace string, headless bool) []string {
	out := []string{ref.Name + "." + ref.Namespace, ref.Name + "." + ref.Namespace + ".svc"}
	if namespace == ref.Namespace {
		out = append(out, ref.Name)
	}
	if headless {
		for _, name := range append([]string{ref.Host()}, out...) {
			out = append(out, "*."+name)
		}
	}
	return out
}
