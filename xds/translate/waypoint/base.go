package waypoint

import (
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/authzfilter"
	"github.com/sallyport/sallyport/xds/translate/outbound"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Inputs is what a waypoint's base is made from.
type Inputs struct {
	Fronts []Front // in order
	// Gateways are those by which hosts outside leave.
	Gateways    []outbound.Gateway
	Connect     time.Duration // the mesh's connectTimeout
	Trust       envoy.TrustDomains
	IPv6        bool
	Log         string // what is recorded: one of mesh's words
	Hosts       envoy.InlineHosts
	DNSDefaults name.Defaults
	// Authorizers are all that policies may have asked: which ones do changes no listener.
	Authorizers []envoy.Authorizer
	Pods        Pods
	Ends        bool // its agent takes note of requests that are under way
	Tunnels     bool // and of tunnels, and other connections, to hosts outside
}

// Front is a port of a Service that the waypoint stands before, with the policies of its connections.
type Front struct {
	part.Front
	Set   authz.Set
	Asked Asked
}

// Resources are everything of a waypoint that is not about single Services, and the listener, which has a chain for each of their ports: as
// many as it stands before, and a chain that comes or goes ends no other's connections.
func (in Inputs) Resources() []*resource.Resource {
	l := in.listener()
	pods := in.pods(l)
	out := []*resource.Resource{
		envoy.SealCluster(envoy.BlackHole()),
		envoy.Seal(resource.Listener, l.Name, l),
		envoy.Seal(resource.Route, wire.WaypointListener, envoy.RouteTable(wire.WaypointListener, envoy.NotFrontedHost(), in.Hosts, false)),
		part.SealDNSDefaults(in.DNSDefaults),
	}
	out = append(out, envoy.PlaceholderRow(wire.WaypointListener, in.Hosts)...)
	for _, f := range in.Fronts {
		switch {
		case f.HTTP: // what comes by HBONE
			out = append(out, inner(f, "requests", in.filters(f))...)
		case f.Asks(): // once the client is known
			out = append(out, inner(f, "bytes", envoy.WaypointTCPFilters(f.Name(), wire.HostPort(f.Host, f.Port), f.In, kindOf(f.Front), in.Tunnels))...)
		}
	}
	return append(append(out, pods...), in.outside()...)
}

// inner is an internal listener of a port's, and the cluster before it.
func inner(f Front, chain string, filters []*listenerv3.Filter) []*resource.Resource {
	return []*resource.Resource{envoy.SealCluster(envoy.InternalCluster(f.Name())), envoy.Seal(resource.Listener, f.Name(), envoy.InternalListener(f.Name(), nil, envoy.FilterChain(chain, nil, filters...)))}
}

func (in Inputs) listener() *listenerv3.Listener {
	l := envoy.BindAll(&listenerv3.Listener{
		Name: wire.WaypointListener, TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters: []*listenerv3.ListenerFilter{envoy.InspectTLS()}, ListenerFiltersTimeout: durationpb.New(envoy.HelloPatience),
	}, wire.HBONEPort, in.IPv6)
	for _, f := range in.Fronts {
		match := envoy.MatchTLS()
		match.ServerNames, match.ApplicationProtocols = []string{resolve.SNI(f.Port, f.In, f.Host)}, wire.MeshALPN
		c := envoy.FilterChain(f.Name(), match, append([]*listenerv3.Filter{envoy.SharedClientFilter()}, in.filters(f)...)...)
		var offers []string
		if f.HTTP {
			offers = []string{"h2", envoy.HTTP11}
		}
		c.TransportSocket = envoy.MeshServerTLS(in.Trust, offers...)
		l.FilterChains = append(l.FilterChains, envoy.WithHandshakeTimeout(c))
	}
	match := envoy.MatchTLS()
	match.ApplicationProtocols = []string{"h2"}
	tunnels := envoy.FilterChain("hbone", match, envoy.SharedClientFilter(), envoy.WaypointTunnels(wire.WaypointListener, in.logs(), in.deniedOnly(), in.Tunnels))
	tunnels.TransportSocket = envoy.MeshServerTLS(in.Trust, "h2")
	l.FilterChains = append(l.FilterChains, envoy.WithHandshakeTimeout(tunnels))
	return l
}

// filters take what is for a Service's port on.
func (in Inputs) filters(f Front) []*listenerv3.Filter {
	out := []*listenerv3.Filter{envoy.NoteServicePort(f.Port)}
	if f.HTTP {
		return append(out, envoy.WaypointHCM(f.Name(), in.logs(), in.deniedOnly(), f.Outside, in.Ends, in.asking(f)))
	}
	if in.Tunnels && f.Asks() {
		out = append(out, envoy.NoteOpened(kindOf(f.Front), f.In))
	}
	on := envoy.TCPProxy{Stat: f.Name(), Cluster: f.Behind(), AfterHello: true, Denied: in.deniedOnly() || f.Asks()}
	if f.Closed {
		on.Cluster = wire.BlackHoleCluster
	}
	if in.logs() || f.Outside {
		on.Log = wire.InboundTCP
	}
	if len(f.Set) > 0 {
		out = append(out, f.Asked.connections(f.Set, ClientInputs(in.Trust), in.authorizer)...)
		out = append(out, envoy.AuthorizationNetworkFilter(connections(f.Set, ClientInputs(in.Trust))))
	}
	return append(out, on.Filter())
}

// asking are those who may be asked about requests for a port. EgressPolicies judge what leaves as it came.
func (in Inputs) asking(f Front) []envoy.Authorizer {
	out := slices.Clone(in.Authorizers)
	for i := range out {
		out[i].Fixed = f.Outside
	}
	return out
}

// authorizer is one of them.
func (in Inputs) authorizer(provider string) envoy.Authorizer {
	i := slices.IndexFunc(in.Authorizers, func(a envoy.Authorizer) bool { return a.Name == provider })
	return in.Authorizers[i]
}

func (in Inputs) logs() bool       { return in.Log != mesh.MeshOff }
func (in Inputs) deniedOnly() bool { return in.Log == mesh.MeshDenied }

// connections are policies of connections.
func connections(set authz.Set, by authzfilter.Inputs) *httprbacv3.RBAC {
	return authzfilter.Filter(set, func(set authz.Set) *envoy.OnMatch { return authzfilter.Connections(set, by) })
}

// ClientInputs is how a waypoint sees who comes: by the certificate that the client showed, and the address that it came from. The port is the Service's.
func ClientInputs(trust envoy.TrustDomains) authzfilter.Inputs {
	from, port := envoy.StateInput(wire.StateFrom), envoy.StateInput(wire.StatePort)
	return authzfilter.Inputs{
		Domains: trust.Domains(), Client: envoy.StateInput(wire.StateClient), From: from, Remote: from,
		Port: func(_ authz.Term, values []string) *envoy.Predicate {
			var any []*envoy.Predicate
			for _, v := range slices.Sorted(slices.Values(values)) {
				any = append(any, envoy.InputIs(port, v))
			}
			return envoy.AnyOf(any...)
		},
		SNI: func(expression string) *envoy.Predicate { return envoy.InputMatches(envoy.SNIInput(), expression) },
	}
}

// seeTunnel is that of connections that come by HBONE, which says the port that it is for.
func seeTunnel(trust envoy.TrustDomains) authzfilter.Inputs {
	out, asked := ClientInputs(trust), envoy.HeaderInput(":authority")
	out.Port = func(t authz.Term, values []string) *envoy.Predicate {
		return envoy.InputMatches(asked, t.Expression(values, nil))
	}
	return out
}
