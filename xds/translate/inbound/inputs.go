package inbound

import (
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// Inputs is what the way in of a class of sidecars is made from.
type Inputs struct {
	Inbound resolve.Inbound
	Trust   envoy.TrustDomains // of whose certificates are taken
	Detect  time.Duration      // how long a client may say nothing until it is taken for one that waits for the server
	IPv6    bool
	Log     string // what is recorded: one of mesh's words
	// Judge is AuthorizationPolicies of a pod's own, where they do not come by a name that all of an Envoy share: of connections.
	Judge *httprbacv3.RBAC
}

// Resources are all of the way in.
func (in Inputs) Resources() []*resource.Resource {
	out := []*resource.Resource{
		envoy.SealCluster(toApp(wire.InboundPassthrough, wire.PassthroughSource, wire.PassthroughSource6)),
		envoy.SealCluster(toApp(wire.InboundPassthrough6, wire.PassthroughSource6, wire.PassthroughSource)),
		envoy.Seal(resource.Listener, wire.VirtualInbound, in.listener()),
	}
	for _, p := range in.Inbound.Ports {
		if p.Led {
			out = append(out, envoy.SealCluster(toPort(p)))
		}
	}
	return out
}

// inspector reads how a connection begins; nil where that makes no difference at any port. Where it makes none, nobody waits for the
// client's first bytes.
func (in Inputs) inspector() *listenerv3.ListenerFilter {
	reads := in.Inbound.Mode != registry.Disable
	var others []uint32
	for _, p := range in.Inbound.Ports {
		if (p.HTTP || p.Mode != registry.Disable) != reads {
			others = append(others, p.Number)
		}
	}
	f := envoy.InspectTLS()
	switch {
	case reads:
		if !in.Inbound.Alone {
			others = append(others, registry.AgentPorts...)
		}
		if len(others) > 0 {
			f.FilterDisabled = envoy.MatchPorts(others)
		}
	case len(others) > 0:
		f.FilterDisabled = envoy.MatchNotPorts(others)
	default:
		return nil
	}
	return f
}
