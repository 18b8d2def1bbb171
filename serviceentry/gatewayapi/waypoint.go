package gatewayapi

import (
	"cmp"
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
func (l *Listener) waypoint(w World, g *config.Object, spec *gatewayv1.GatewaySpec, in *gatewayv1.Listener) {
	unsupported := func(what string) {
		l.Unaccepted = Problem{string(gatewayv1.ListenerReasonUnsupportedValue), what}
	}
	to := string(WaypointFor(w, g))
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

// Traffic is what a waypoint may stand before, in Istio's words.
type Traffic string

// What there is: what is for Services and hosts outside, and what is for pods' own addresses.
const (
	ToServices  Traffic = "service"
	ToWorkloads Traffic = "workload"
	ToAll       Traffic = "all"
)

// Is says whether a waypoint that is for this is for that.
func (t Traffic) Is(what Traffic) bool { return t == what || t == ToAll }

// UnknownFor says why what a waypoint's label WaypointForLabel asks for is not done, and what to write; "" where it is.
func UnknownFor(to string) (why, fix string) {
	switch Traffic(to) {
	case "", ToServices, ToWorkloads, ToAll, NoWaypoint:
		return "", ""
	default:
		return "it says nothing of whom a waypoint is for", "write service, workload, all or none"
	}
}

// WaypointFor is what a waypoint is for: its Gateway's label says it, else that of its class; else it is for Services.
func WaypointFor(w World, o *config.Object) Traffic {
	return TrafficOf(o, w.Object(config.Key{Kind: config.KindGatewayClass, Name: string(o.Spec.(*gatewayv1.GatewaySpec).GatewayClassName)}))
}

// TrafficOf is the same by the objects: the class is nil where there is none.
func TrafficOf(waypoint, class *config.Object) Traffic {
	said := waypoint.Labels[WaypointForLabel]
	if class != nil {
		said = cmp.Or(said, class.Labels[WaypointForLabel])
	}
	return Traffic(cmp.Or(said, string(ToServices)))
}

// Leaves says that a Gateway is a waypoint that leaves this traffic alone, as its label says: it goes straight then.
func Leaves(w World, ns, name string, what Traffic) bool {
	o := gateway(w, ns, name)
	if o == nil || !IsWaypoint(o.Spec.(*gatewayv1.GatewaySpec).GatewayClassName) {
		return false
	}
	is := WaypointFor(w, o)
	why, _ := UnknownFor(string(is))
	return why == "" && !is.Is(what)
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
	why := "the waypoint has no listener"
	for _, l := range Listeners(w, o).Own {
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
