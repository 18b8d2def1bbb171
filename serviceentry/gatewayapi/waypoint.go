package gatewayapi

import (
	"slices"

	dns "k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
)

// WaypointClasses are the classes of Gateways that are waypoints: proxies before Services of the mesh. The first is Istio's name, and ours where
// no GatewayClass object says that it is somebody else's.
var WaypointClasses = []gatewayv1.ObjectName{"istio-waypoint", "sallyport-waypoint"}

// HBONE is the protocol of a waypoint's listener; Istio's word for HTTP/2 CONNECT over mutual TLS of the mesh.
const HBONE gatewayv1.ProtocolType = "HBONE"

// HBONEPort is the port of it.
const HBONEPort = 15008

// Istio's labels of waypoints: on a Gateway, what it is for; on Services, ServiceEntries and namespaces, which one is used.
const (
	WaypointForLabel          = "istio.io/waypoint-for"
	UseWaypointLabel          = "istio.io/use-waypoint"
	UseWaypointNamespaceLabel = "istio.io/use-waypoint-namespace"
	IngressUseWaypointLabel   = "istio.io/ingress-use-waypoint"
	NoWaypoint                = "none"
)

// IsWaypoint says whether Gateways of a class are waypoints. Whose the class is IsOurs says.
func IsWaypoint(class gatewayv1.ObjectName) bool { return slices.Contains(WaypointClasses, class) }

// waypoint says what of a waypoint's listener is not served: there is one of them, for HBONE.
func (l *Listener) waypoint(g *config.Object, spec *gatewayv1.GatewaySpec, in *gatewayv1.Listener) {
	unsupported := func(what string) {
		l.Unaccepted = Problem{string(gatewayv1.ListenerReasonUnsupportedValue), what}
	}
	to := g.Labels[WaypointForLabel]
	why, fix := UnknownFor(to)
	switch {
	case len(dns.IsDNS1035Label(g.Name)) > 0:
		unsupported("metadata.name: " + g.Name + ": a waypoint's Service has its name, and none can have this: write a lower-case letter, then letters, digits and hyphens, at most 63")
	case l.Protocol != HBONE:
		l.Unaccepted = Problem{string(gatewayv1.ListenerReasonUnsupportedProtocol), "protocol: " + string(l.Protocol) + " is not served by waypoints: write HBONE, with port 15008"}
	case l.Port != HBONEPort:
		l.Unaccepted = Problem{string(gatewayv1.ListenerReasonPortUnavailable), "port: waypoints take HBONE at port 15008 only"}
	case in.TLS != nil:
		unsupported("tls: HBONE has the mesh's own: remove it")
	case in.Hostname != nil && *in.Hostname != "":
		unsupported("hostname: a waypoint stands before Services, whatever they are called: remove it")
	case spec.TLS != nil:
		unsupported("spec.tls: clients and backends of a waypoint show the mesh's certificates: remove it")
	case why != "":
		unsupported("metadata.labels[" + WaypointForLabel + "]: " + to + ": " + why + ": " + fix)
	}
}

// UnknownFor says why what a waypoint's label WaypointForLabel asks for is not done, and what to write; "" where it is.
func UnknownFor(to string) (why, fix string) {
	switch to {
	case "", "service", NoWaypoint:
		return "", ""
	case "workload", "all":
		return "what goes to addresses of pods is not led by waypoints", "write service"
	default:
		return "it says nothing of whom a waypoint is for", "write service, or none"
	}
}

// Waypoint finds a Gateway that is a waypoint, for Services of a namespace, or says why there is none.
func Waypoint(w World, ns, name, of string) (*config.Object, string) {
	o := gateway(w, ns, name)
	if o == nil || !IsWaypoint(o.Spec.(*gatewayv1.GatewaySpec).GatewayClassName) {
		return nil, "there is no such waypoint: a Gateway of class istio-waypoint or sallyport-waypoint"
	}
	spec := o.Spec.(*gatewayv1.GatewaySpec)
	if p := Unacceptable(spec); p.Is() {
		return nil, "the waypoint is not accepted: " + p.Message
	}
	if o.Labels[WaypointForLabel] == NoWaypoint {
		return nil, "the waypoint is for none, as its label " + WaypointForLabel + " says"
	}
	why := "the waypoint has no listener"
	for _, l := range ListenersOf(w, o, config.Key{}) {
		switch {
		case l.Unaccepted.Is() || l.Conflict.Is():
			why = "the waypoint's listener " + l.Name + " is not open: " + l.Unaccepted.Message + l.Conflict.Message
		case !l.takes(w, of):
			why = "the waypoint's listener " + l.Name + " lets no Services of namespace " + of + " use it (allowedRoutes)"
		default:
			return o, ""
		}
	}
	return nil, why
}
