package translate

import (
	"cmp"
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/machine"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/locality"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/ondemand"
)

// Kind is the kind of a proxy.
type Kind uint8

// The kinds.
const (
	Sidecar  Kind = iota
	Gateway       // an egress gateway's pod
	Forward       // the explicit forward proxy of `sallyport up`
	Ingress       // a pod by which others come into the mesh
	Ambient       // the proxy of a node, for its pods that have no sidecars
	Waypoint      // a pod that stands before Services of the mesh
)

// Node is what is known of one connected proxy.
type Node struct {
	ID        string // sidecar~IP~POD.NS~NS.svc.cluster.local
	Namespace string
	Account   string
	Labels    map[string]string
	IPv6      bool   // one of its addresses is IPv6
	Forward   string // ip:port for explicit proxying; makes it a Forward
	OnDemand  bool   // its agent hands it clusters when they are used
	Ends      bool   // its agent takes note of requests that are under way (wire.EndsMetadata)
	// EndsTunnels says that it takes note of tunnels, too, that share their connection (wire.EndsTunnels).
	EndsTunnels bool
	Fetch       string // what its agent says of rows (ondemand.FetchMetadata); "" where it cannot hand them out
	FetchExit   bool   // of a gateway: and it can hand them out there (ondemand.ExitMetadata)
	Named       bool   // it asks for those by name (ondemand.NamedMetadata)
	NamesWait   bool   // it answers names no sooner than their rows are there (wire.NamesWaitMetadata)
	Reconnects  bool   // of a sidecar: its pod's rules lead what it connects to once more back to it (wire.ReconnectsMetadata)
	Inline      bool   // it cannot do VHDS: state-of-the-world streams
	DecidedTag  bool   // it reads what decided in one tag of the log's (wire.DecidedMetadata)
	// Certificates says that a router's agent finds certificates by the names that clients say (ondemand.CertificatesMetadata).
	Certificates bool
	Sessions     uint32               // of UDP, which a gateway's pod may have at a time; 0 where it does not say
	Topology     mesh.GatewayTopology // what a gateway's pod says of the proxies in front of it
	Plain        bool                 // it came without TLS: it gets no secrets
	On           string               // of the proxy of a node: the node
	Serves       string               // likewise: the namespaces of its pods in the mesh, in order, with commas between them
	OwnTables    bool                 // likewise: its agent opens templates of namespaces (ambient.OwnMetadata)
	Kubelet      bool                 // likewise: its agent lets the kubelet connect to pods (ambient.KubeletMetadata)
	Host         string               // of a pod's: the node that it is on; "" where nobody knows
	// Machine is what the proxy of a machine says of it that wants to join by a WorkloadGroup; nil of others.
	Machine *machine.Proxy
}

// IsRouter says whether the node id is a gateway's.
func (n Node) IsRouter() bool { return strings.HasPrefix(n.ID, "router~") }

// IsAmbient says whether the node id is that of a node's proxy.
func (n Node) IsAmbient() bool { return strings.HasPrefix(n.ID, ambient.ProxyType+"~") }

// address is the pod's, as the node id says it.
func (n Node) address() string {
	_, rest, _ := strings.Cut(n.ID, "~")
	address, _, _ := strings.Cut(rest, "~")
	return address
}

// Class is a kind of proxies that get the same bytes. It is comparable, and everything that a view depends on
// beside the snapshot is in it.
type Class struct {
	Kind      Kind
	Own       string               // of nodes: the namespaces that have tables of their own there, in order, with commas between them
	View      string               // the namespace whose visibility differs from everybody's; "" otherwise
	Scope     config.Key           // the Sidecar object that narrows it
	Selected  registry.SelectorKey // for sidecars: the DestinationRules that select it
	Gateway   registry.Ref         // for gateways: the service that selects it; for waypoints: the Gateway
	Port      uint32               // for gateways: where it listens
	Forward   netip.AddrPort       // for forward proxies
	Namespace string               // for forward proxies: on whose behalf
	OnDemand  bool                 // for gateways and forward proxies
	Ends      bool
	Tunnels   bool // for waypoints: its agent takes note of tunnels that share their connection
	IPv6      bool
	Inline    bool
	Plain     bool
	Fetch     bool // for sidecars and gateways: its agent hands it rows when they are used
	Named     bool // for sidecars: and asks for them by name
	// Reconnects says of sidecars that they can make a client's connection once more.
	Reconnects bool
	Ingress    registry.Ingress
	Network    string              // where it is, in a mesh of several
	Client     locality.Client     // where it is, as far as anything asks
	Inbound    registry.InboundKey // for sidecars: what it lets in, where that is not what everybody does
	// Recorded is what is recorded of what comes in, where Telemetries say otherwise than the mesh: for sidecars and waypoints.
	Recorded string
	// Asks are the names of the authorizers that AuthorizationPolicies have it ask, "," between.
	Asks string
	// DecidedTag says that its agents read in one tag of the log's what decided.
	DecidedTag bool
}

// Classify finds a node's class. A gateway's pod that no service selects is a class that gets nothing to
// forward.
func Classify(s *registry.Snapshot, n Node) Class {
	c := classify(s, n)
	c.Asks, c.DecidedTag = asks(s, n, c.Kind), n.DecidedTag
	return c
}

func classify(s *registry.Snapshot, n Node) Class {
	c := Class{IPv6: n.IPv6, Inline: n.Inline, Plain: n.Plain, Network: s.Topology().Network(n.Labels), Client: s.Client(n.Labels, cmp.Or(n.On, n.Host))}
	if n.IsAmbient() {
		c.Kind, c.Ends = Ambient, n.Ends
		if n.OwnTables && !c.Inline { // whose tables list hosts
			c.Own = ownTables(s, n.Serves)
		}
		return c
	}
	if n.IsWaypoint() {
		c.Kind, c.Gateway, c.Ends, c.Tunnels = Waypoint, s.WaypointOf(n.Namespace, n.Labels), n.Ends, n.Ends && n.EndsTunnels
		c.Recorded = s.RecordedAt(c.Gateway)
		return c
	}
	if addr, err := netip.ParseAddrPort(n.Forward); err == nil && n.IsRouter() {
		c.Kind, c.Forward, c.Namespace, c.OnDemand, c.Ends = Forward, addr, n.Namespace, n.OnDemand, n.Ends
		return c
	}
	if n.IsRouter() {
		c.Kind, c.OnDemand, c.Ends = Gateway, n.OnDemand, n.Ends
		if k := s.ExitService(n.Namespace, n.Labels); k != nil {
			c.Gateway, c.Port = k.Ref, k.TunnelPort()
		}
		c.Fetch = n.FetchExit && n.fetches(s.Mesh.FetchGateways)
		if who, is := n.ingress(s); is {
			who.OnDemand = n.Certificates && !n.Inline
			return Class{Kind: Ingress, Ingress: who, IPv6: n.IPv6, Inline: n.Inline, Plain: n.Plain, Network: c.Network, Client: c.Client}
		}
		return c
	}
	c.Ends, c.Reconnects = n.Ends, n.Reconnects
	c.Fetch = n.fetches(s.Mesh.Fetch)
	c.Named = c.Fetch && n.Named
	c.Inbound, c.Recorded = s.Inbound(n.Namespace, n.Labels, n.address()), s.Recorded(n.Namespace, n.Labels)
	c.View = s.View(n.Namespace)
	c.Selected = s.Selecting(n.Namespace, n.Labels)
	if scope := s.Scope(n.Namespace, n.Labels); scope != nil {
		c.Scope = scope.Key
		c.View = n.Namespace // "./host" in a scope depends on it
	}
	return c
}

// fetches says whether a proxy is given rows when they are used: as its workload says, else as the mesh does.
func (n Node) fetches(inMesh string) bool {
	switch {
	case n.Inline || n.Fetch == "":
		return false
	case n.Fetch == ondemand.FetchAsMesh:
		return inMesh == mesh.OnUse
	default:
		return n.Fetch == ondemand.OnUse
	}
}

// ingress is what a router is by which others come into the mesh; false of others.
func (n Node) ingress(s *registry.Snapshot) (registry.Ingress, bool) {
	who, is := s.IngressOf(n.Namespace, n.Labels, n.Sessions)
	who.Topology = n.Topology
	return who, is
}
