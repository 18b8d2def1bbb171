package gatewayapi

import (
	"fmt"
	"net/netip"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Addresses are those that a Gateway asks for: IP addresses, which its Service's load balancer may give it or not.
func Addresses(spec *gatewayv1.GatewaySpec) (out []string) {
	for _, a := range spec.Addresses {
		if a.Value != "" {
			out = append(out, a.Value)
		}
	}
	return out
}

// addressProblem is what of a Gateway's addresses nobody could be asked for. Whether one can be used the load balancer says.
func addressProblem(spec *gatewayv1.GatewaySpec) Problem {
	if IsEgress(spec.GatewayClassName) {
		return egressAddressProblem(spec)
	}
	for i, a := range spec.Addresses {
		unsupported := func(why string) Problem {
			return Problem{string(gatewayv1.GatewayReasonUnsupportedAddress), fmt.Sprintf("addresses[%d]: %s %s", i, a.Value, why)}
		}
		addr, err := netip.ParseAddr(a.Value)
		switch {
		case or(a.Type, gatewayv1.IPAddressType) != gatewayv1.IPAddressType:
			return unsupported("is of type " + string(*a.Type) + ", and only an IPAddress can be asked for")
		case a.Value == "":
		case IsWaypoint(spec.GatewayClassName):
			return unsupported("is asked for by a waypoint, whose address is of its Service in the cluster")
		case err != nil || addr.Zone() != "" || !addr.IsGlobalUnicast():
			return unsupported("is no address that a load balancer could have")
		}
	}
	return Problem{}
}
