package resolve

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// OutboundPolicy is what happens to what nobody registered.
type OutboundPolicy struct {
	AllowAny bool
	Dynamic  bool           // requests go where the proxy resolves their Host
	Networks []netip.Prefix // the cluster's own, which are not outside; told where they count
	By       config.Key     // the object that says so: a Sidecar, or the mesh's settings
	// Fronted are networks of pods, some of which have a waypoint before their own addresses: of what is passed on there, nodes ask whether it goes by one.
	Fronted []netip.Prefix
}

// UnregisteredRoute is one route of it.
type UnregisteredRoute struct {
	For    Kind // Connections or Requests
	To     UnregisteredMatch
	Action UnregisteredAction
	Inside bool // it stays in the mesh, of AskPod
}

// UnregisteredMatch keeps a route to some of what comes.
type UnregisteredMatch uint8

// The parts.
const (
	ToAnything  UnregisteredMatch = iota
	ToMadeUp                      // what was sent to a made-up address
	ToCluster                     // what was sent to the cluster's own networks
	ToNamedHost                   // requests whose Host can be looked up
	ToFronted                     // what was sent to networks in which pods have waypoints
	ToProxy                       // what was sent to a port that proxies catch traffic at; not one of the routes, since no table is asked
)

// UnregisteredAction is what becomes of it.
type UnregisteredAction uint8

// What becomes of it.
const (
	Block   UnregisteredAction = iota
	Nowhere                    // it ends: a made-up address that leads to nothing
	PassOn                     // it goes where it was sent to
	LookUp                     // it goes where the proxy resolves its Host
	AskPod                     // it is passed on, by the waypoint of the pod that has the address, where there is one
	Loop                       // it ends: passed on, it would come back
)

// Leaves says whether what takes the route leaves the mesh.
func (r UnregisteredRoute) Leaves() bool {
	return r.Action == AskPod && !r.Inside || (r.Action == PassOn || r.Action == LookUp) && r.To != ToCluster
}

// Routes gives them in order; the last takes everything.
func (r OutboundPolicy) Routes() (out []UnregisteredRoute) {
	passOn := func(kind Kind, to UnregisteredMatch) {
		if len(r.Fronted) > 0 {
			out = append(out, UnregisteredRoute{For: kind, To: ToFronted, Action: AskPod, Inside: to == ToCluster})
		}
		out = append(out, UnregisteredRoute{For: kind, To: to, Action: PassOn})
	}
	add := func(kind Kind, to UnregisteredMatch, action UnregisteredAction) {
		out = append(out, UnregisteredRoute{For: kind, To: to, Action: action})
	}
	if !r.AllowAny {
		if len(r.Networks) > 0 {
			passOn(Connections, ToCluster)
			passOn(Requests, ToCluster)
		}
		add(Connections, ToAnything, Block)
		add(Requests, ToAnything, Block)
		return out
	}
	add(Connections, ToMadeUp, Nowhere)
	passOn(Connections, ToAnything)
	if r.Dynamic {
		add(Requests, ToNamedHost, LookUp)
	}
	add(Requests, ToMadeUp, Nowhere)
	passOn(Requests, ToAnything)
	return out
}

// ForAddress is the route of connections to an address that somebody wrote, and that are not for its host.
func (r OutboundPolicy) ForAddress() UnregisteredRoute {
	if r.AllowAny {
		return UnregisteredRoute{For: Connections, To: ToAnything, Action: PassOn}
	}
	return UnregisteredRoute{For: Connections, To: ToAnything, Action: Block}
}

// OutboundPolicy is what happens to what nobody registered.
func (a Sidecar) OutboundPolicy() OutboundPolicy {
	r := OutboundPolicy{AllowAny: a.snap.AllowAny(a.scope), Dynamic: a.snap.DynamicDNS(a.scope), By: a.outboundPolicyObject()}
	if !r.AllowAny {
		r.Networks = a.snap.Networks()
	}
	if a.node {
		r.Fronted = a.snap.FrontedNetworks()
	}
	return r
}

// Unfronted is the same for what was asked about, and goes by no waypoint.
func (r OutboundPolicy) Unfronted() OutboundPolicy {
	r.Fronted = nil
	return r
}

// outboundPolicyObject is the object that says it.
func (a Sidecar) outboundPolicyObject() config.Key {
	if a.scope != nil && a.scope.AllowAny != nil {
		return a.scope.Key
	}
	return MeshPolicy(a.snap)
}

// MeshPolicy is the object behind the mesh-wide outbound policy.
func MeshPolicy(s *registry.Snapshot) config.Key {
	return config.Key{Kind: config.KindMeshConfig, Namespace: s.Mesh.RootNamespace, Name: "mesh"}
}

// Unregistered gives the route of what nobody registered that takes a destination.
func (a Sidecar) Unregistered(d Destination) UnregisteredRoute {
	return a.unregisteredRoute(a.OutboundPolicy(), d)
}

// Held is the same for a name or an address that somebody has, though not for this: where the cluster's networks are is no matter.
func (a Sidecar) Held(d Destination) UnregisteredRoute {
	policy := a.OutboundPolicy().Unfronted()
	policy.Networks = nil
	return a.unregisteredRoute(policy, d)
}

func (a Sidecar) unregisteredRoute(policy OutboundPolicy, d Destination) UnregisteredRoute {
	if slices.Contains(config.RedirectPorts(), d.Port) {
		return UnregisteredRoute{For: Connections, To: ToProxy, Action: Loop}
	}
	kind := Connections
	if d.Scheme == HTTP && a.shown(d).Scheme == HTTP {
		kind = Requests
	}
	routes := policy.Routes()
	_, ip, _ := a.address(d)
	for _, r := range routes {
		if r.For == kind && a.is(r.To, d, ip) {
			return r
		}
	}
	return routes[len(routes)-1]
}

// is says whether a destination, whose address is given as far as it is known, is one that a route is for.
func (a Sidecar) is(to UnregisteredMatch, d Destination, ip netip.Addr) bool {
	switch to {
	case ToMadeUp: // an address that leads nowhere but to what is registered for it
		return host.MadeUp(ip)
	case ToCluster:
		return a.inCluster(d, ip)
	case ToFronted:
		return slices.ContainsFunc(a.snap.FrontedNetworks(), func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
	case ToNamedHost:
		last := d.Host[strings.LastIndexByte(d.Host, '.')+1:]
		return last != d.Host && last != "localhost" && last != "" && (last[0] < '0' || last[0] > '9')
	default:
		return true
	}
}

// inCluster says whether the destination is in the cluster's own networks: an address there, or a name that has one there, or that
// only the cluster's DNS knows, as pods of headless Services have.
func (a Sidecar) inCluster(d Destination, ip netip.Addr) bool {
	if ip.IsValid() {
		return a.snap.InCluster(ip)
	}
	if len(a.snap.Networks()) == 0 || !strings.HasSuffix(d.Host, ".svc.cluster.local") || a.snap.AliasEnd(d.Host) != d.Host {
		return false
	}
	return !slices.ContainsFunc(a.snap.Services(d.Host), func(svc *registry.Service) bool { return svc.External })
}
