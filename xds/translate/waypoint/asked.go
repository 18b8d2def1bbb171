package waypoint

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/translate/authzfilter"
)

// Asked is whom policies of one front have asked (the action CUSTOM). Many namespaces may share a waypoint, so each front has a provider of its own: which one another
// front's policies name is no matter.
type Asked struct {
	By  *mesh.Authorizer // nil where nobody is asked
	Why string           // why nobody can be, where somebody should; then what the rules mean is closed
}

// requests is the filter of access, in a table, that says what somebody is asked about, or closes it; nil where the policies have nobody asked.
func (a Asked) requests(set authz.Set, see authzfilter.Inputs) *httprbacv3.RBAC {
	switch {
	case a.Why != "":
		return authzfilter.Asked(nil, authzfilter.AskedRequests(set, see, a.Why))
	case a.By != nil:
		return authzfilter.Asked(authzfilter.AskedRequests(set, see, ""), nil)
	}
	return nil
}

// connections are the filters of a chain whose bytes nobody reads.
func (a Asked) connections(set authz.Set, see authzfilter.Inputs, cluster func(provider string) envoy.Authorizer) []*listenerv3.Filter {
	why := a.Why
	if why == "" && a.By != nil && !a.By.GRPC {
		if a.By.FailOpen {
			return nil
		}
		why = authzfilter.OfRequestsAlone(a.By.Name)
	}
	switch {
	case why != "":
		return []*listenerv3.Filter{envoy.CloseMatching(authzfilter.OfConnections(authzfilter.Asked(nil, authzfilter.AskedConnections(set, see, why))))}
	case a.By != nil:
		return cluster(a.By.Name).AskAbout(authzfilter.OfConnections(authzfilter.Asked(authzfilter.AskedConnections(set, see, ""), nil)))
	}
	return nil
}

// byTunnel are policies as connections are held to them that come by HBONE, of which nobody is asked: what is to be asked about is closed, unless who cannot be asked lets
// it in.
func (a Asked) byTunnel(set authz.Set) (out authz.Set) {
	for _, p := range set {
		if p.Action == authz.Custom {
			if a.Why == "" && a.By != nil && !a.By.GRPC && a.By.FailOpen {
				continue
			}
			closed := *p
			closed.Action = authz.Deny
			p = &closed
		}
		out = append(out, p)
	}
	return out
}
