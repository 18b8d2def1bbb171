package gatewayapi

import (
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/serviceentry/route"
)

// hostnameGroup and hostnameKind are Istio's: a backend that is a host, as a ServiceEntry registers it. There is no such object.
// https://istio.io/latest/docs/tasks/traffic-management/egress/egress-gateway/
const (
	hostnameGroup = "networking.istio.io"
	hostnameKind  = "Hostname"
)

// IsHostname says whether a backend is a host, and no object.
func IsHostname(b gatewayv1.BackendObjectReference) bool {
	return or(b.Group, "") == hostnameGroup && or(b.Kind, "") == hostnameKind
}

// hostname reads a backend that is a host. Who may name it is said by whoever exports it; Services of other namespaces need a grant, which
// names them as Services.
func (r Route) hostname(b gatewayv1.BackendObjectReference) (route.Destination, Problem) {
	name := r.HostOf(b)
	none := func(reason gatewayv1.RouteConditionReason, why string) (route.Destination, Problem) {
		return route.Destination{}, Problem{string(reason), "backendRefs: Hostname " + string(b.Name) + " " + why}
	}
	service, of := strings.CutSuffix(name, clusterDomain)
	switch {
	case r.Kind == "UDPRoute":
		return none(gatewayv1.RouteReasonInvalidKind, "is no Service, which what comes by UDP is led to")
	case b.Namespace != nil:
		return none(gatewayv1.RouteReasonUnsupportedValue, "is named with a namespace: hosts are in none")
	case b.Port == nil:
		return none(gatewayv1.RouteReasonUnsupportedValue, "is named without a port")
	case !strings.Contains(name, ".") || strings.Contains(name, "*"):
		return none(gatewayv1.RouteReasonUnsupportedValue, "is no full name of one host")
	case of && !strings.HasSuffix(service, "."+r.Object.Namespace):
		return none(gatewayv1.RouteReasonRefNotPermitted, "is a Service of another namespace: name it as one (kind: Service, with its namespace), as a ReferenceGrant lets it")
	}
	return route.Destination{Host: name, Port: uint32(*b.Port)}, Problem{}
}
