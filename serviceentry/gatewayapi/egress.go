package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	hosts "github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// EgressClass is the class of Gateways that stand for an egress gateway of the mesh (docs/adr/0084-egress-gateways-of-the-gateway-api.md).
// Nothing is deployed for them. What a route that is attached to one says of a host is its registration, as a ServiceEntry's would be, and
// how the gateway leads what comes for it.
const EgressClass gatewayv1.ObjectName = "sallyport-egress"

// IsEgress says whether Gateways of a class are those. Whose the class is IsOurs says.
func IsEgress(class gatewayv1.ObjectName) bool { return class == EgressClass }

// EgressService is the Service of the egress gateway that a Gateway stands for, whose name is its address; false where it means the mesh's own.
func EgressService(spec *gatewayv1.GatewaySpec) (types.NamespacedName, bool) {
	if len(spec.Addresses) == 0 {
		return types.NamespacedName{}, false
	}
	return serviceOf(spec.Addresses[0].Value)
}

// serviceOf reads the name of a Service in the cluster.
func serviceOf(name string) (types.NamespacedName, bool) {
	short, in := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(name, ".")), clusterDomain)
	service, ns, two := strings.Cut(short, ".")
	return types.NamespacedName{Namespace: ns, Name: service}, in && two && service != "" && ns != "" && !strings.Contains(ns, ".")
}

// clusterDomain ends the names of Services.
const clusterDomain = ".svc.cluster.local"

// egressAddressProblem says which of an egress Gateway's addresses name no gateway.
func egressAddressProblem(spec *gatewayv1.GatewaySpec) Problem {
	for i, a := range spec.Addresses {
		_, names := serviceOf(a.Value)
		switch {
		case i > 0:
			return Problem{string(gatewayv1.GatewayReasonUnsupportedAddress), "addresses[1]: " + a.Value + " is another gateway, and a Gateway stands for one"}
		case or(a.Type, gatewayv1.IPAddressType) != gatewayv1.HostnameAddressType || !names:
			return Problem{string(gatewayv1.GatewayReasonUnsupportedAddress), "addresses[0]: " + a.Value + " is no egress gateway: write type Hostname, and the name of its Service, as in istio-egressgateway.istio-system.svc.cluster.local"}
		}
	}
	return Problem{}
}

// egress says what of an egress Gateway's listener is not served, and which routes are. What apps send is not taken out of its TLS, and of
// what is neither TLS nor HTTP nobody reads a host.
func (l *Listener) egress(spec *gatewayv1.GatewaySpec, in *gatewayv1.Listener) {
	unsupported := func(reason gatewayv1.ListenerConditionReason, what string) { l.Unaccepted = Problem{string(reason), what} }
	switch l.Protocol {
	case gatewayv1.HTTPProtocolType:
		if in.TLS != nil {
			unsupported(gatewayv1.ListenerReasonUnsupportedValue, "tls: what comes as HTTP has none: remove it")
		}
	case gatewayv1.TLSProtocolType:
		if l.Passes = in.TLS != nil && or(in.TLS.Mode, gatewayv1.TLSModeTerminate) == gatewayv1.TLSModePassthrough; !l.Passes {
			unsupported(gatewayv1.ListenerReasonUnsupportedValue, "tls.mode: egress gateways pass the TLS of apps on: write Passthrough")
		}
	default:
		unsupported(gatewayv1.ListenerReasonUnsupportedProtocol, "protocol: "+string(l.Protocol)+" is not served by egress gateways: write HTTP, or TLS with mode Passthrough; a ServiceEntry registers ports of TCP")
	}
	if spec.TLS != nil {
		unsupported(gatewayv1.ListenerReasonUnsupportedValue, "spec.tls: pods and egress gateways show each other the mesh's certificates: remove it; a DestinationRule says what hosts outside are shown")
	}
}

// Leaving is a host's port that a route lets out by an egress Gateway.
type Leaving struct {
	Ref  string // of the listener
	Host string // exact, or "*.suffix"
	Port uint32
	TLS  bool // of apps, passed on
}

// leaving finds the hosts that a route lets out by listeners of an egress Gateway. Before are its parents so far.
func (a *Attachment) leaving(r Route, listeners []Listener, before []Attachment) {
	for i := range listeners {
		l := &listeners[i]
		if !slices.Contains(a.Refs, l.Ref) || l.Unaccepted.Is() || l.Conflict.Is() {
			continue
		}
		names := r.Hostnames
		if len(names) == 0 {
			names = []string{l.Host}
		}
		for _, n := range names {
			n = common(n, l.Host)
			if n == "" || narrowedBy(listeners, l, n) {
				continue
			}
			why := cannotLeave(n)
			if slices.ContainsFunc(before, func(b Attachment) bool {
				return b.Egress && b.Stands != a.Stands && slices.ContainsFunc(b.Leaves, func(l Leaving) bool { return l.Host == n })
			}) {
				why = n + " leaves by another egress gateway already, that of a parent before this"
			}
			if why != "" {
				a.Problem, a.Refs, a.Leaves = Problem{string(gatewayv1.RouteReasonUnsupportedValue), "hostnames: " + why}, nil, nil
				return
			}
			if one := (Leaving{l.Ref, n, l.Port, l.Passes}); !slices.Contains(a.Leaves, one) {
				a.Leaves = append(a.Leaves, one)
			}
		}
	}
}

// common is what two names, or patterns, have in common; "" for nothing.
func common(a, b string) string {
	switch {
	case a == b || b == "*" || hosts.Matches(hosts.Name(b), hosts.Name(a)):
		return a
	case a == "*" || hosts.Matches(hosts.Name(a), hosts.Name(b)):
		return b
	default:
		return ""
	}
}

// narrowedBy says whether a name is another listener's of the port, whose host is narrower.
func narrowedBy(listeners []Listener, l *Listener, name string) bool {
	return slices.ContainsFunc(listeners, func(o Listener) bool {
		return o.Ref != l.Ref && o.beside(l) && !o.Unaccepted.Is() && !o.Conflict.Is() && o.Host != l.Host && common(o.Host, l.Host) == o.Host && common(name, o.Host) == name
	})
}

// cannotLeave says why a name is none of a host outside; "" where it may be one.
func cannotLeave(name string) string {
	if name == "*" {
		return "neither the route nor the listener names the hosts that are let out: write them"
	}
	parsed, err := hosts.Parse(name)
	switch bare := strings.TrimPrefix(name, "*."); {
	case err != nil:
		return err.Error()
	case hosts.IsAddress(name):
		return name + " is an address: name a host, or write a ServiceEntry"
	case strings.HasSuffix("."+bare, ".cluster.local"):
		return name + " is inside of the mesh, and egress Gateways lead outside"
	case !strings.Contains(bare, ".") && (parsed.IsWildcard() || bare != ""):
		return name + " is no full name of a host outside"
	}
	return ""
}

// outside reads a backend as egress Gateways reach it.
func (r Route) outside(b gatewayv1.BackendObjectReference) (route.Destination, Problem) {
	if !IsHostname(b) {
		return route.Destination{}, Problem{string(gatewayv1.RouteReasonInvalidKind), fmt.Sprintf("backendRefs: %s %s is inside of the mesh, and egress Gateways lead outside: name a Hostname of %s", or(b.Kind, "Service"), b.Name, hostnameGroup)}
	}
	none := func(reason gatewayv1.RouteConditionReason, why string) (route.Destination, Problem) {
		return route.Destination{}, Problem{string(reason), "backendRefs: Hostname " + string(b.Name) + " " + why}
	}
	name := r.HostOf(b)
	switch {
	case b.Namespace != nil:
		return none(gatewayv1.RouteReasonUnsupportedValue, "is named with a namespace: hosts are in none")
	case b.Port == nil:
		return none(gatewayv1.RouteReasonUnsupportedValue, "is named without a port")
	case cannotLeave(name) != "":
		return none(gatewayv1.RouteReasonRefNotPermitted, "cannot be led to: "+cannotLeave(name))
	}
	return route.Destination{Host: name, Port: uint32(*b.Port)}, Problem{}
}
