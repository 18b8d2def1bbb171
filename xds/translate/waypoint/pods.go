package waypoint

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/authzfilter"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// What a waypoint does before pods' own addresses, at any port: two chains, of requests and of bytes, which ask about the address that the TLS name says, and go there.

// Pod is what the part of such an address is made from.
type Pod struct {
	Key     config.Key
	Address netip.Addr
	Before  bool // it stands before it now; else the pod has only asked for it
}

// Part is its row: it goes there, but not to the mesh's own ports.
func (p Pod) Part() *part.Part {
	uses := &part.Uses{Pods: []registry.Ref{{Namespace: p.Key.Namespace}}}
	if !p.Before {
		return &part.Part{Uses: uses}
	}
	at := p.Address.String()
	if p.Address.Is6() {
		at = "[" + at + "]"
	}
	about := func(authority string) *routev3.RouteMatch {
		m := envoy.MatchQuestion("")
		m.Headers = []*routev3.HeaderMatcher{{Name: ":authority", HeaderMatchSpecifier: envoy.HeaderMatches(authority)}}
		return m
	}
	vh := &routev3.VirtualHost{Name: wire.VhostName(wire.InboundPods, p.Address.String()), Domains: []string{at + ":*"}, Routes: []*routev3.Route{
		envoy.Refuse(wire.LoopRoute, about(ownPorts()), 404, "", nil), // without an answer the connection is closed
		envoy.Answer{Route: "default", Config: envoy.ObjectRef(p.Key), Cluster: wire.InboundPods}.Row(about(`.*:[1-9][0-9]*`)),
	}}
	return &part.Part{Resources: []*resource.Resource{envoy.Seal(resource.VirtualHost, vh.Name, vh)}, Uses: uses}
}

func ownPorts() string {
	var ports []string
	for _, p := range config.RedirectPorts() {
		ports = append(ports, fmt.Sprint(p))
	}
	return ".*:0*(" + strings.Join(ports, "|") + ")"
}

// Endpoints are none.
func (Pod) Endpoints([]registry.Endpoint) []*resource.Resource { return nil }

// Pods is what counts for all of them alike.
type Pods struct {
	Namespaces []string // of pods that ask for it, and the waypoint's own, in order
	Set        authz.Set
	Asked      Asked
}

// pods are the chains, the tables and the cluster. They are there before the first pod and after the last one: nodes that have not heard yet send on what is for it.
func (in Inputs) pods(l *listenerv3.Listener) []*resource.Resource {
	table := wire.InboundPods + "|http"
	requests := []*listenerv3.Filter{envoy.WaypointHCM(table, in.logs(), in.deniedOnly(), false, false, in.Authorizers)}
	var bytes []*listenerv3.Filter
	if see := seePod(in.Trust); len(in.Pods.Set) > 0 {
		bytes = append(in.Pods.Asked.connections(in.Pods.Set, see, in.authorizer), envoy.AuthorizationNetworkFilter(connections(in.Pods.Set, see)))
	}
	on := envoy.TCPProxy{Stat: podBytes, Cluster: podBytes, AfterHello: true, Denied: true} // what goes on is logged behind
	if in.logs() {
		on.Log = wire.InboundTCP
	}
	l.FilterChains = append(l.FilterChains,
		in.podChain(wire.ALPNPodHTTP, append(askPod(), requests...)),
		in.podChain(wire.ALPNPod, append(bytes, on.Filter())),
	)
	return append(envoy.PlaceholderRow(wire.InboundPods, in.Hosts),
		farend.ToPods(in.Pods.Namespaces, in.Trust, in.Connect),
		envoy.SealCluster(envoy.QuestionCluster(wire.InboundDecide)),
		envoy.Seal(resource.Listener, wire.InboundDecide, envoy.PlainTableListener(wire.InboundDecide, wire.InboundPods)),
		envoy.SealCluster(envoy.InternalCluster(podBytes)), envoy.Seal(resource.Listener, podBytes, in.podBytes()),
		envoy.Seal(resource.Route, wire.InboundPods, envoy.RouteTable(wire.InboundPods, envoy.NotFrontedHost(), in.Hosts, false)),
		envoy.Seal(resource.Route, table, in.Pods.table(table, seePod(in.Trust))),
	)
}

// podBytes is the internal listener, and the cluster in front of it, where connections are asked about: that is when their client is known, whom policies before it are asked about.
const podBytes = wire.InboundPods + "|tcp"

// cameFor is the address, with its port, that a connection is for.
const cameFor = "%FILTER_STATE(" + wire.StateDialled + ":PLAIN)%"

// podChain takes what is for pods' own addresses, as the protocol says that its client offers.
func (in Inputs) podChain(alpn string, then []*listenerv3.Filter) *listenerv3.FilterChain {
	match := envoy.MatchTLS()
	match.ApplicationProtocols = []string{alpn}
	c := envoy.FilterChain(alpn, match, append([]*listenerv3.Filter{
		envoy.SharedClientFilter(),
		envoy.SetFilterState(envoy.ComputedState(wire.StateDialled, "connection.requested_server_name.split('~')[1]", envoy.SharedOnce)),
	}, then...)...)
	c.TransportSocket = envoy.MeshServerTLS(in.Trust, alpn)
	return envoy.WithHandshakeTimeout(c)
}

// askPod asks whether a connection goes to a pod that the waypoint stands before, and says which.
func askPod() []*listenerv3.Filter {
	q := envoy.Question{Table: wire.InboundDecide, Name: cameFor, Also: map[string]string{envoy.HeaderKind: envoy.KindTCP, envoy.HeaderTo: cameFor}}
	return []*listenerv3.Filter{q.Filter(), envoy.RouteByAnswer(envoy.State(wire.StateOriginalDst, cameFor, envoy.NotShared))}
}

func (in Inputs) podBytes() *listenerv3.Listener {
	on := envoy.TCPProxy{Stat: podBytes, Cluster: wire.BlackHoleCluster}
	if in.logs() && !in.deniedOnly() {
		on.Log, on.Tags = wire.InboundTCP, envoy.QuestionTags(cameFor)
		maps.Copy(on.Tags, envoy.WaypointTags)
	}
	return envoy.InternalListener(podBytes, nil, envoy.FilterChain("bytes", nil, append(askPod(), on.Filter())...))
}

// table has one row: requests go to the address that the connection was asked about.
func (p Pods) table(name string, see authzfilter.Inputs) *routev3.RouteConfiguration {
	rc := &routev3.RouteConfiguration{
		Name: name, ValidateClusters: wrapperspb.Bool(false),
		VirtualHosts:                   []*routev3.VirtualHost{{Name: name, Domains: []string{"*"}, Routes: []*routev3.Route{envoy.Route("default", envoy.MatchAnyRequest(), envoy.ToCluster(wire.InboundPods))}}},
		RequestHeadersToRemove:         []string{"x-envoy-original-path", "x-envoy-decorator-operation"},
		MaxDirectResponseBodySizeBytes: wrapperspb.UInt32(envoy.MaxBody),
	}
	if len(p.Set) > 0 {
		rc.TypedPerFilterConfig = map[string]*anypb.Any{envoy.FilterAuthzRequests: envoy.AuthorizationOverride(authzfilter.Filter(p.Set, func(set authz.Set) *envoy.OnMatch { return authzfilter.Requests(set, see) }))}
		if asked := p.Asked.requests(p.Set, see); asked != nil {
			rc.TypedPerFilterConfig[envoy.FilterCustom] = envoy.AuthorizationOverride(asked)
		}
	}
	return rc
}

// seePod is how a waypoint sees who comes to a pod's own address: the port is the one in that.
func seePod(trust envoy.TrustDomains) authzfilter.Inputs {
	out := ClientInputs(trust)
	out.Port = func(t authz.Term, values []string) *envoy.Predicate {
		return envoy.InputMatches(envoy.StateInput(wire.StateDialled), t.Expression(values, nil))
	}
	return out
}
