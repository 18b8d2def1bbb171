package waypoint

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/authzfilter"
	"github.com/sallyport/sallyport/xds/translate/outbound"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// What a waypoint does before hosts outside: it goes on to their egress gateway as itself, so EgressPolicies are asked here as well, about whom the
// client's certificate says.

func (h *Host) outside() bool { return h.Service.External }

// leaves is what a table's filters are to ask about; nil of a Service.
func (h *Host) leaves(port registry.Port) map[string]*anypb.Any {
	if !h.outside() {
		return nil
	}
	return envoy.FrontedFilterConfigs(h.Service.Host, port.Number, wire.Front{In: resolve.FrontedIn(h.Service)})
}

// answer is for questions about connections to a port, which say whose registration they mean.
func (h *Host) answer(port registry.Port) *routev3.Route {
	row := outbound.TowardsGateway(h.Service, port, h.RegisteredBySeveral).Row(envoy.MatchQuestion(""))
	row.Match.Headers = append(row.Match.Headers, &routev3.HeaderMatcher{Name: wire.HeaderRegisteredIn, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
		StringMatch: envoy.Exact(resolve.FrontedIn(h.Service)),
	}})
	if f := h.policiesAgain(port); f != nil {
		envoy.AskedAgainBy(row, f)
	}
	return envoy.WithRevision(row, h.Service.RevisionOf(port))
}

// policiesAgain are the AuthorizationPolicies of a port as they are asked about what is open; nil where there are none, or where they look at what nobody knows of it any more.
func (h *Host) policiesAgain(port registry.Port) *httprbacv3.RBAC {
	set, see := h.Policies.Enforced(), seeTunnel(h.Trust)
	switch {
	case len(set) == 0 || !set.Known(port.Protocol.IsHTTP()):
		return nil
	case port.Protocol.IsHTTP():
		return authzfilter.Filter(set, func(set authz.Set) *envoy.OnMatch { return authzfilter.Requests(set, see) })
	}
	return connections(set, see)
}

// outside is what hosts outside need of the base; nothing where the waypoint stands before none.
func (in Inputs) outside() (out []*resource.Resource) {
	for _, g := range in.Gateways {
		out = append(out, g.Way(in.Connect)...)
	}
	out = append(out, envoy.QuestionListeners()...)
	if len(in.Gateways) == 0 {
		return out
	}
	if in.Ends {
		out = append(out, envoy.LeavingListener("")...)
		out = append(out, envoy.SealCluster(envoy.QuestionCluster(wire.WaypointAgain)), envoy.Seal(resource.Listener, wire.WaypointAgain, envoy.TableListener(wire.WaypointAgain, wire.WaypointListener, envoy.AskedAgain)))
	}
	return append(out, envoy.SealCluster(envoy.QuestionCluster(wire.WaypointDecide)), envoy.Seal(resource.Listener, wire.WaypointDecide, envoy.TableListener(wire.WaypointDecide, wire.WaypointListener, envoy.AskedOfWaypoint)))
}

// kindOf is what a question says of a port's bytes.
func kindOf(f part.Front) string {
	if f.TLS {
		return envoy.KindTLS
	}
	return envoy.KindTCP
}
