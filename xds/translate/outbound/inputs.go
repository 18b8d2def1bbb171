package outbound

import (
	"slices"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/inbound"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Resources are everything of a sidecar that is not about single hosts.
func (in Inputs) Resources() []*resource.Resource {
	return slices.Concat(farend.SealSecrets(in.Secrets), base(in), []*resource.Resource{part.SealDNSDefaults(in.Names)})
}

// Inputs is what a sidecar's base is made from.
type Inputs struct {
	Ports    []Listening
	Gateways []Gateway
	Outside  resolve.OutboundPolicy // what happens to what nobody registered
	Detect   time.Duration
	// DetectWeb is Detect at the ports where clients speak first (AlwaysListening).
	DetectWeb time.Duration
	// Silence is how long a sidecar waits further for a client that has said nothing, where its address is known for clients that speak first.
	Silence time.Duration
	// Reconnects says, of a sidecar, that it can make a connection once more, as it has to for that.
	Reconnects bool
	Connect    time.Duration // the mesh's connectTimeout
	TCPPorts   []uint32      // where nothing is read, beside those that are known for it
	IPv6       bool
	Inbound    inbound.Inputs // what comes to the pods
	Hosts      envoy.InlineHosts
	// Mesh says that what gets to pods is logged where it comes from, too, and not there alone.
	Mesh    bool
	Names   name.Defaults // what DNS does with what is in no name table
	Secrets []farend.Material
	// Fetch says that Envoy is given rows when they are used, and for how long one stays that is not; 0: it has all of them.
	Fetch time.Duration
	Named bool // they are asked for by name
	Ends  bool // its agent takes note of requests that are under way
	// Pods says that it is the proxy of a node: its listeners are templates, of which its agent opens some in each pod.
	Pods bool
	// Own is, there, the namespace whose own tables these are, with the template of what its pods send; "" of what all share.
	Own string
	// Waypoints are, there, those before pods' own addresses, in order.
	Waypoints []resolve.WaypointHop
}

// Listening is a port that some host is registered at.
type Listening struct {
	Number uint32
	Opaque bool            // only TCP services, not all of other namespaces: nothing to inspect
	Ranges []part.RangeUse // of TCP services that own ranges of addresses, in order
	Own    string          // at the proxy of a node: the namespace whose table it is; "" of that of all
}

func (p Listening) route() string  { return wire.OwnName(p.Own, wire.RouteName(p.Number)) }
func (p Listening) decide() string { return wire.OwnName(p.Own, wire.DecideName(p.Number)) }

// Gateway is an egress gateway as its clients see it.
type Gateway struct {
	part.GatewayRef
	Endpoints  []registry.EndpointGroup
	Port       registry.Port
	Identities []string
}

// AlwaysListening are the ports that have listeners also where nothing is registered at them: that is where names are
// tried that nobody registered.
var AlwaysListening = []uint32{80, 443}

// inspectors find out what is spoken, except on ports where the server speaks first, or that the mesh's settings name: looking for the client's first
// bytes there would only make it wait, and one that sends little and shuts its side at once would be reset; and except on other ports that are given.
func (in Inputs) inspectors(except ...uint32) []*listenerv3.ListenerFilter {
	list := envoy.InspectSpoken()
	for _, f := range list {
		f.FilterDisabled = envoy.MatchPorts(slices.Concat(except, registry.ServerFirstPorts(), in.TCPPorts))
	}
	return list
}
