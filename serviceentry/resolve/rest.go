package resolve

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Rest is what happens to what nobody registered.
type Rest struct {
	AllowAny bool
	Dynamic  bool           // requests go where the proxy resolves their Host
	Networks []netip.Prefix // the cluster's own, which are not outside; told where they count
	By       config.Key     // the object that says so: a Sidecar, or the mesh's settings
}

// RestRoute is one route of it.
type RestRoute struct {
	For  Kind // Connections or Requests
	To   RestTo
	Does RestDoes
}

// RestTo keeps a route to some of what comes.
type RestTo uint8

// The parts.
const (
	ToAnything  RestTo = iota
	ToMadeUp           // what was sent to a made-up address
	ToCluster          // what was sent to the cluster's own networks
	ToNamedHost        // requests whose Host can be looked up
	ToProxy            // what was sent to a port that proxies catch traffic at; not one of the routes, since no table is asked
)

// RestDoes is what becomes of it.
type RestDoes uint8

// What becomes of it.
const (
	Block   RestDoes = iota
	Nowhere          // it ends: a made-up address that leads to nothing
	PassOn           // it goes where it was sent to
	LookUp           // it goes where the proxy resolves its Host
	Loop             // it ends: passed on, it would come back
)

// Leaves says whether what takes the route leaves the mesh.
func (r RestRoute) Leaves() bool {
	return (r.Does == PassOn || r.Does == LookUp) && r.To != ToCluster
}

// Routes gives them in order; the last takes everything.
func (r Rest) Routes() []RestRoute {
	if !r.AllowAny {
		var out []RestRoute
		if len(r.Networks) > 0 {
			out = append(out, RestRoute{Connections, ToCluster, PassOn}, RestRoute{Requests, ToCluster, PassOn})
		}
		return append(out, RestRoute{Connections, ToAnything, Block}, RestRoute{Requests, ToAnything, Block})
	}
	out := []RestRoute{{Connections, ToMadeUp, Nowhere}, {Connections, ToAnything, PassOn}}
	if r.Dynamic {
		out = append(out, RestRoute{Requests, ToNamedHost, LookUp})
	}
	return append(out, RestRoute{Requests, ToMadeUp, Nowhere}, RestRoute{Requests, ToAnything, PassOn})
}

// ForAddress is the route of connections to an address that somebody wrote, and that are not for its host.
func (r Rest) ForAddress() RestRoute {
	if r.AllowAny {
		return RestRoute{Connections, ToAnything, PassOn}
	}
	return RestRoute{Connections, ToAnything, Block}
}

// Rest is what happens to what nobody registered.
func (a Sidecar) Rest() Rest {
	r := Rest{AllowAny: a.snap.AllowAny(a.scope), Dynamic: a.snap.DynamicDNS(a.scope), By: a.outboundPolicy()}
	if !r.AllowAny {
		r.Networks = a.snap.Networks()
	}
	return r
}

// outboundPolicy is the object that says it.
func (a Sidecar) outboundPolicy() config.Key {
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
func (a Sidecar) Unregistered(d Destination) RestRoute { return a.restRoute(a.Rest(), d) }

// Held is the same for a name or an address that somebody has, though not for this: where the cluster's networks are is no matter.
func (a Sidecar) Held(d Destination) RestRoute {
	rest := a.Rest()
	rest.Networks = nil
	return a.restRoute(rest, d)
}

func (a Sidecar) restRoute(rest Rest, d Destination) RestRoute {
	if slices.Contains(config.RedirectPorts(), d.Port) {
		return RestRoute{Connections, ToProxy, Loop}
	}
	kind := Connections
	if a.shown(d).Scheme == HTTP {
		kind = Requests
	}
	routes := rest.Routes()
	for _, r := range routes {
		if r.For == kind && a.is(r.To, d) {
			return r
		}
	}
	return routes[len(routes)-1]
}

func (a Sidecar) is(to RestTo, d Destination) bool {
	switch to {
	case ToMadeUp:
		return a.toMadeUp(d)
	case ToCluster:
		return a.inCluster(d)
	case ToNamedHost:
		last := d.Host[strings.LastIndexByte(d.Host, '.')+1:]
		return last != d.Host && last != "localhost" && last != "" && (last[0] < '0' || last[0] > '9')
	default:
		return true
	}
}

// inCluster says whether the destination is in the cluster's own networks: an address there, or a name that has one there, or that
// only the cluster's DNS knows, as pods of headless Services have.
func (a Sidecar) inCluster(d Destination) bool {
	if ip, _ := a.address(d); ip.IsValid() {
		return a.snap.InCluster(ip)
	}
	if len(a.snap.Networks()) == 0 || !strings.HasSuffix(d.Host, ".svc.cluster.local") || a.snap.AliasEnd(d.Host) != d.Host {
		return false
	}
	return !slices.ContainsFunc(a.snap.Services(d.Host), func(svc *registry.Service) bool { return svc.External })
}

// toMadeUp says whether the destination's address leads nowhere but to what is registered for it.
func (a Sidecar) toMadeUp(d Destination) bool {
	ip, _ := a.address(d)
	return host.MadeUp(ip)
}
