package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/named"
)

// Listener is one of a Gateway's.
type Listener struct {
	Name     string
	Ref      string     // "NAMESPACE/GATEWAY/LISTENER"; of a ListenerSet, "NAMESPACE/GATEWAY/NAMESPACE/SET/LISTENER"
	Set      config.Key // the ListenerSet that it is of; zero: it is the Gateway's own
	Host     string     // a name, "*.suffix", or "*"
	Port     uint32
	Protocol gatewayv1.ProtocolType
	Passes   bool // TLS goes through as it is
	Kinds    []gatewayv1.RouteGroupKind
	// Certificates are the Secrets that it shows.
	Certificates []types.NamespacedName
	Clients      *Clients // what it asks of clients; nil for nothing
	// What is wrong: it is not accepted, contradicts another, or names what it may not. Any of the first two closes it.
	Unaccepted, Conflict, Refs Problem

	namespace string // of the object that it is written in
	from      gatewayv1.FromNamespaces
	selector  *metav1.LabelSelector
}

// Opens says whether the gateway listens for it.
func (l *Listener) Opens() bool {
	return !l.Unaccepted.Is() && !l.Conflict.Is() && (l.Protocol != gatewayv1.HTTPSProtocolType && l.Protocol != gatewayv1.TLSProtocolType || l.Passes || len(l.Certificates) > 0)
}

// Shut says that the listener ends TLS and has no certificate to show, for which nothing else is wrong with it: its hosts are closed, and no
// wider listener's.
func (l *Listener) Shut() bool { return !l.Unaccepted.Is() && !l.Conflict.Is() && !l.Opens() }

// ListenerRef is how a route's matches name a listener.
func ListenerRef(gateway config.Key, listener string) string {
	return gateway.Namespace + "/" + gateway.Name + "/" + listener
}

// ParseRef takes a ListenerRef apart. Names of Istio's Gateways, "NAMESPACE/NAME", are none.
func ParseRef(ref string) (gateway config.Key, listener string, ok bool) {
	parts := strings.SplitN(ref, "/", 3)
	if len(parts) != 3 {
		return config.Key{}, "", false
	}
	return config.Key{Kind: config.KindKubeGateway, Namespace: parts[0], Name: parts[1]}, parts[2], true
}

// Unacceptable says what of a Gateway as a whole is not done: none of it is opened then.
func Unacceptable(spec *gatewayv1.GatewaySpec) Problem {
	return addressProblem(spec)
}

// listener reads one of a Gateway g, which is written in it or in a ListenerSet.
func listener(w World, g, o *config.Object, spec *gatewayv1.GatewaySpec, in *gatewayv1.Listener) Listener {
	l := Listener{
		Name: string(in.Name), Ref: ListenerRef(g.Key, string(in.Name)), Host: strings.ToLower(string(or(in.Hostname, ""))),
		Port: uint32(in.Port), Protocol: in.Protocol, namespace: o.Namespace, from: gatewayv1.NamespacesFromSame,
	}
	if o.Kind == config.KindListenerSet {
		l.Set, l.Ref = o.Key, ListenerRef(g.Key, o.Namespace+"/"+o.Name+"/"+l.Name)
	}
	if l.Host == "" {
		l.Host = "*"
	}
	if a := in.AllowedRoutes; a != nil && a.Namespaces != nil {
		l.from, l.selector = or(a.Namespaces.From, gatewayv1.NamespacesFromSame), a.Namespaces.Selector
	}
	supported := l.supported(in)
	l.Kinds = supported
	if IsWaypoint(spec.GatewayClassName) {
		l.waypoint(w, g, spec, in)
		return l
	}
	if a := in.AllowedRoutes; a != nil && len(a.Kinds) > 0 {
		l.Kinds = nil
		for _, k := range a.Kinds {
			k.Group = new(or(k.Group, gatewayv1.GroupName))
			if slices.ContainsFunc(supported, func(s gatewayv1.RouteGroupKind) bool { return *s.Group == *k.Group && s.Kind == k.Kind }) {
				l.Kinds = append(l.Kinds, k)
			} else {
				l.Refs = Problem{string(gatewayv1.ListenerReasonInvalidRouteKinds), "allowedRoutes.kinds: " + string(k.Kind) + " is no route of a listener of protocol " + string(l.Protocol)}
			}
		}
	}
	if IsEgress(spec.GatewayClassName) {
		l.egress(spec, in)
		return l
	}
	switch l.Protocol {
	case gatewayv1.HTTPProtocolType, gatewayv1.TCPProtocolType, gatewayv1.UDPProtocolType:
	case gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType:
		l.tls(w, o, in.TLS)
		if !l.Passes && !l.Unaccepted.Is() {
			l.asks(w, g, validation(spec, l.Port))
		}
	default:
		l.Unaccepted = Problem{string(gatewayv1.ListenerReasonUnsupportedProtocol), "protocol: " + string(l.Protocol) + " is not served by Gateways of this class"}
	}
	if in.Port < 1 || in.Port > 65535 {
		l.Unaccepted = Problem{string(gatewayv1.ListenerReasonPortUnavailable), fmt.Sprintf("port: %d is no port number", in.Port)}
	}
	if config.IsGatewayPort(l.Port) {
		l.Unaccepted = Problem{string(gatewayv1.ListenerReasonPortUnavailable), "port: proxies listen there themselves"}
	}
	return l
}

// supported are the kinds of routes that its protocol has.
func (l *Listener) supported(in *gatewayv1.Listener) []gatewayv1.RouteGroupKind {
	of := func(kinds ...gatewayv1.Kind) (out []gatewayv1.RouteGroupKind) {
		for _, k := range kinds {
			out = append(out, gatewayv1.RouteGroupKind{Group: new(gatewayv1.Group(gatewayv1.GroupName)), Kind: k})
		}
		return out
	}
	switch l.Protocol {
	case gatewayv1.HTTPProtocolType, gatewayv1.HTTPSProtocolType:
		return of("HTTPRoute", "GRPCRoute")
	case gatewayv1.TLSProtocolType:
		if in.TLS != nil && or(in.TLS.Mode, gatewayv1.TLSModeTerminate) == gatewayv1.TLSModeTerminate {
			return of("TLSRoute", "TCPRoute")
		}
		return of("TLSRoute")
	case gatewayv1.TCPProtocolType:
		return of("TCPRoute")
	case gatewayv1.UDPProtocolType:
		return of("UDPRoute")
	default:
		return []gatewayv1.RouteGroupKind{}
	}
}

// tls reads how it ends TLS.
func (l *Listener) tls(w World, o *config.Object, in *gatewayv1.ListenerTLSConfig) {
	unsupported := func(what string) { l.Unaccepted = Problem{string(gatewayv1.ListenerReasonUnsupportedValue), what} }
	if in == nil {
		unsupported("tls: it is missing")
		return
	}
	l.Passes = or(in.Mode, gatewayv1.TLSModeTerminate) == gatewayv1.TLSModePassthrough
	switch {
	case l.Passes && l.Protocol == gatewayv1.HTTPSProtocolType:
		unsupported("tls.mode: requests inside of TLS that passes are not read")
		return
	case l.Passes:
		return
	case len(in.Options) > 0:
		unsupported("tls.options: none is known")
		return
	}
	for _, ref := range in.CertificateRefs {
		key, known := named.Certificate(o.Namespace, ref)
		switch {
		case !known:
			l.Refs = Problem{string(gatewayv1.ListenerReasonInvalidCertificateRef), "tls.certificateRefs: " + string(or(ref.Kind, "Secret")) + " " + key.Name + " is no Secret"}
		case !granted(w, gatewayParty(o), partyOf(key)):
			l.Refs = Problem{string(gatewayv1.ListenerReasonRefNotPermitted), "tls.certificateRefs: no ReferenceGrant in namespace " + key.Namespace + " lets it name Secret " + key.Name}
		default:
			l.Certificates = append(l.Certificates, types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
		}
	}
	if len(in.CertificateRefs) == 0 {
		l.Refs = Problem{string(gatewayv1.ListenerReasonInvalidCertificateRef), "tls.certificateRefs: none is written"}
	}
}

// clash notes where another listener of the Gateway wants the same: both are closed.
func (l *Listener) clash(o *Listener) {
	switch {
	case !l.beside(o) || l.Unaccepted.Is() || o.Unaccepted.Is():
	case l.family() != o.family():
		l.Conflict = Problem{string(gatewayv1.ListenerReasonProtocolConflict), "port: listener " + o.Name + " speaks another protocol there"}
	case !l.Conflict.Is() && l.Ref == o.Ref:
		l.Conflict = Problem{string(gatewayv1.ListenerReasonHostnameConflict), "name: another listener of the Gateway is called " + o.Name + ", too"}
	case !l.Conflict.Is() && l.Host == o.Host:
		l.Conflict = Problem{string(gatewayv1.ListenerReasonHostnameConflict), "hostname: listener " + o.Name + " has it at this port, too"}
	}
}

// beside says whether two listeners are at one port, where what comes by UDP is apart.
func (l *Listener) beside(o *Listener) bool {
	return l.Port == o.Port && (l.Protocol == gatewayv1.UDPProtocolType) == (o.Protocol == gatewayv1.UDPProtocolType)
}

// family tells which listeners may share a port.
func (l *Listener) family() gatewayv1.ProtocolType {
	if l.Protocol == gatewayv1.HTTPSProtocolType {
		return gatewayv1.TLSProtocolType
	}
	return l.Protocol
}

// takes says whether routes of a namespace may attach.
func (l *Listener) takes(w World, ns string) bool {
	return let(w, l.from, l.selector, l.namespace, ns)
}

// BySelector says whether a Gateway, or a ListenerSet, asks for namespaces' labels.
func BySelector(o *config.Object) bool {
	asks := func(a *gatewayv1.AllowedRoutes) bool {
		return a != nil && a.Namespaces != nil && a.Namespaces.Selector != nil
	}
	switch spec := o.Spec.(type) {
	case *gatewayv1.GatewaySpec:
		sets := spec.AllowedListeners != nil && spec.AllowedListeners.Namespaces != nil && spec.AllowedListeners.Namespaces.Selector != nil
		return sets || slices.ContainsFunc(spec.Listeners, func(l gatewayv1.Listener) bool { return asks(l.AllowedRoutes) })
	case *gatewayv1.ListenerSetSpec:
		return slices.ContainsFunc(spec.Listeners, func(l gatewayv1.ListenerEntry) bool { return asks(l.AllowedRoutes) })
	}
	return false
}
