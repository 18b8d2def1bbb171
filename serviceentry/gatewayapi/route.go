package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	hosts "github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Route is one of any kind, as far as they are alike.
type Route struct {
	Object    *config.Object
	Kind      gatewayv1.Kind
	Parents   []gatewayv1.ParentReference
	Hostnames []string // in lower case; none: all
}

// RouteOf reads one; false for objects that are none.
func RouteOf(o *config.Object) (Route, bool) {
	r := Route{Object: o, Kind: gatewayv1.Kind(o.Kind)}
	var names []gatewayv1.Hostname
	switch spec := o.Spec.(type) {
	case *gatewayv1.HTTPRouteSpec:
		r.Parents, names = spec.ParentRefs, spec.Hostnames
	case *gatewayv1.GRPCRouteSpec:
		r.Parents, names = spec.ParentRefs, spec.Hostnames
	case *gatewayv1.TLSRouteSpec:
		r.Parents, names = spec.ParentRefs, spec.Hostnames
	case *gatewayv1.TCPRouteSpec:
		r.Parents = spec.ParentRefs
	case *gatewayv1.UDPRouteSpec:
		r.Parents = spec.ParentRefs
	default:
		return Route{}, false
	}
	for _, n := range names {
		r.Hostnames = append(r.Hostnames, strings.ToLower(string(n)))
	}
	return r, true
}

// GatewayOf is the Gateway that a parent is; false where it is something else.
func (r Route) GatewayOf(p gatewayv1.ParentReference) (config.Key, bool) {
	if or(p.Group, gatewayv1.GroupName) != gatewayv1.GroupName || or(p.Kind, "Gateway") != "Gateway" {
		return config.Key{}, false
	}
	return config.Key{Kind: config.KindKubeGateway, Namespace: string(or(p.Namespace, gatewayv1.Namespace(r.Object.Namespace))), Name: string(p.Name)}, true
}

// SetOf is the ListenerSet that a parent is; false where it is something else.
func (r Route) SetOf(p gatewayv1.ParentReference) (config.Key, bool) {
	if or(p.Group, gatewayv1.GroupName) != gatewayv1.GroupName || or(p.Kind, "Gateway") != "ListenerSet" {
		return config.Key{}, false
	}
	return config.Key{Kind: config.KindListenerSet, Namespace: string(or(p.Namespace, gatewayv1.Namespace(r.Object.Namespace))), Name: string(p.Name)}, true
}

// ServiceOf is the Service that a parent is; false where it is something else.
func (r Route) ServiceOf(p gatewayv1.ParentReference) (types.NamespacedName, bool) {
	if or(p.Group, gatewayv1.GroupName) != "" || or(p.Kind, "Gateway") != "Service" {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: string(or(p.Namespace, gatewayv1.Namespace(r.Object.Namespace))), Name: string(p.Name)}, true
}

// Attachment is what a parent that is ours makes of a route.
type Attachment struct {
	Parent  gatewayv1.ParentReference
	Gateway config.Key           // what the parent is: a Gateway, or that of the ListenerSet,
	Set     config.Key           // a ListenerSet,
	Service types.NamespacedName // or a Service
	Refs    []string             // the listeners of the Gateway at which it counts
	Port    uint32               // the one of the Service; 0: all that speak what the route is about
	Egress  bool                 // the Gateway is an egress gateway: that of a Service, or the mesh's own,
	Stands  types.NamespacedName // where that has no name,
	Leaves  []Leaving            // and by it these leave
	Problem                      // why it counts nowhere
}

// Way is where the proxies that follow a route lead.
type Way uint8

// The ways: into the mesh, from pods, and out of it.
const (
	Into Way = iota
	FromPods
	Outside
)

// Way is that of a parent.
func (a Attachment) Way() Way {
	switch {
	case a.Egress:
		return Outside
	case a.OfMesh():
		return FromPods
	default:
		return Into
	}
}

// OfMesh says whether the parent is a Service: what goes from pod to pod.
func (a Attachment) OfMesh() bool { return a.Service.Name != "" }

// Attach says where a route counts, for each of its parents that is a Gateway of ours or a Service.
func (r Route) Attach(w World) (out []Attachment) {
	unsupported := r.Unsupported()
	if !unsupported.Is() {
		unsupported = r.twoSessions(w)
	}
	for _, p := range r.Parents {
		if svc, of := r.ServiceOf(p); of {
			a := Attachment{Parent: p, Service: svc, Port: uint32(or(p.Port, 0))}
			if a.Problem = r.asksAt(a, unsupported); !a.Is() {
				a.Problem = r.unlike(w, svc, p)
			}
			out = append(out, a)
			continue
		}
		a := Attachment{Parent: p}
		g := a.find(w, r)
		if g == nil {
			continue
		}
		if spec := g.Spec.(*gatewayv1.GatewaySpec); IsEgress(spec.GatewayClassName) {
			a.Egress = true
			a.Stands, _ = EgressService(spec)
		}
		if a.Problem = r.asksAt(a, unsupported); !a.Is() {
			a.attach(w, r, Listeners(w, g).Of(w, a.Set))
			if a.Egress {
				a.leaving(r, Listeners(w, g).list(), out)
			}
		}
		out = append(out, a)
	}
	return out
}

// asksAt is what is not done of a route at a parent: beside what nobody does, requests of pods have no authorizer asked by a route.
func (r Route) asksAt(a Attachment, unsupported Problem) Problem {
	if !unsupported.Is() && a.Way() != Into && route.AsksAuthorizer(r.Object.Spec) {
		return Problem{string(gatewayv1.RouteReasonUnsupportedValue), AsksElsewhere}
	}
	return unsupported
}

// AsksElsewhere is why a route that has an authorizer asked does not count for what pods ask for.
const AsksElsewhere = "rules: filters of type ExternalAuth count at Gateways for what comes in: for Services, write an AuthorizationPolicy with action CUSTOM"

// find gives the Gateway that the parent is, or that its ListenerSet is for; nil where it is not ours.
func (a *Attachment) find(w World, r Route) (g *config.Object) {
	if key, of := r.SetOf(a.Parent); of {
		set := w.Object(key)
		if set == nil {
			return nil
		}
		if g, _ = SetGateway(w, set); g != nil {
			a.Gateway, a.Set = g.Key, key
		}
		return g
	}
	key, of := r.GatewayOf(a.Parent)
	if !of {
		return nil
	}
	a.Gateway = key
	return gateway(w, key.Namespace, key.Name)
}

// unlike says why a route is not for a Service that is its parent.
func (r Route) unlike(w World, svc types.NamespacedName, p gatewayv1.ParentReference) Problem {
	ports, there := w.Ports(svc)
	none := func(why string) Problem { return Problem{string(gatewayv1.RouteReasonNoMatchingParent), why} }
	switch {
	case !there:
		return none("there is no Service " + svc.String())
	case r.Kind == "UDPRoute":
		return Problem{string(gatewayv1.RouteReasonUnsupportedProtocol), "parentRefs: what pods send by UDP is led by no proxy: name a Gateway"}
	case p.SectionName != nil:
		return none("sectionName: a Service's ports are named by their numbers, as port")
	}
	named := p.Port == nil
	for _, port := range ports {
		if p.Port != nil && uint32(*p.Port) != port.Number {
			continue
		}
		if named = true; port.speaks(r.Kind) {
			return Problem{}
		}
	}
	if !named {
		return none(fmt.Sprintf("Service %s has no port %d", svc, *p.Port))
	}
	return Problem{string(gatewayv1.RouteReasonUnsupportedProtocol), fmt.Sprintf("Service %s speaks nothing there that a %s is about", svc, r.Kind)}
}

// attach finds the listeners. What comes closest says why there is none.
func (a *Attachment) attach(w World, r Route, listeners []Listener) {
	named, allowed := false, false
	for i := range listeners {
		l := &listeners[i]
		if a.Parent.SectionName != nil && string(*a.Parent.SectionName) != l.Name || a.Parent.Port != nil && uint32(*a.Parent.Port) != l.Port {
			continue
		}
		named = true
		if !l.takes(w, r.Object.Namespace) || !slices.ContainsFunc(l.Kinds, func(k gatewayv1.RouteGroupKind) bool { return k.Kind == r.Kind && *k.Group == gatewayv1.GroupName }) {
			continue
		}
		allowed = true
		if r.meets(l.Host) {
			a.Refs = append(a.Refs, l.Ref)
		}
	}
	switch {
	case len(a.Refs) > 0:
	case allowed:
		a.Problem = Problem{string(gatewayv1.RouteReasonNoMatchingListenerHostname), "hostnames: no listener of the Gateway has any of them"}
	case named:
		a.Problem = Problem{string(gatewayv1.RouteReasonNotAllowedByListeners), "no listener that it names lets routes of this kind and namespace attach"}
	default:
		a.Problem = Problem{string(gatewayv1.RouteReasonNoMatchingParent), "what it names has no listener of that name and port, or none that counts"}
	}
}

// meets says whether a listener's host and one of the route's have something in common.
func (r Route) meets(host string) bool {
	return len(r.Hostnames) == 0 || slices.ContainsFunc(r.Hostnames, func(n string) bool { return hosts.Overlap(hosts.Name(host), hosts.Name(n)) })
}

// BackendOf is the name of a backend.
func (r Route) BackendOf(b gatewayv1.BackendObjectReference) types.NamespacedName {
	return types.NamespacedName{Namespace: string(or(b.Namespace, gatewayv1.Namespace(r.Object.Namespace))), Name: string(b.Name)}
}

// HostOf is the host that a backend is; of a Service its full name.
func (r Route) HostOf(b gatewayv1.BackendObjectReference) string {
	if IsHostname(b) {
		return strings.ToLower(strings.TrimSuffix(string(b.Name), "."))
	}
	name := r.BackendOf(b)
	return route.FullName(name.Name, name.Namespace)
}

// Destination reads a backend that a route names. Its Host is empty where the Problem says why requests for it fail. Pods are led by their
// own proxies, which reach what they would reach anyway: no grant is asked for that.
func (r Route) Destination(w World, b gatewayv1.BackendObjectReference, way Way) (route.Destination, Problem) {
	switch {
	case way == Outside:
		return r.outside(b)
	case IsHostname(b):
		return r.hostname(b)
	}
	name := r.BackendOf(b)
	to := party{string(or(b.Group, "")), string(or(b.Kind, "Service")), name.Namespace, name.Name}
	from := party{gatewayv1.GroupName, string(r.Kind), r.Object.Namespace, r.Object.Name}
	switch {
	case to.group != "" || to.kind != "Service":
		return route.Destination{}, Problem{string(gatewayv1.RouteReasonInvalidKind), "backendRefs: " + to.kind + " " + to.name + " is no Service, and no Hostname of " + hostnameGroup}
	case way != FromPods && !granted(w, from, to):
		return route.Destination{}, Problem{string(gatewayv1.RouteReasonRefNotPermitted), "backendRefs: no ReferenceGrant in namespace " + to.namespace + " lets it name Service " + to.name}
	case b.Port == nil:
		return route.Destination{}, Problem{string(gatewayv1.RouteReasonUnsupportedValue), "backendRefs: Service " + to.name + " is named without a port"}
	}
	return route.Destination{Host: route.FullName(to.name, to.namespace), Port: uint32(*b.Port)}, Problem{}
}

// Routes makes what it says neutral, for the listeners of refs, which lead that way.
func (r Route) Routes(w World, refs []string, way Way) route.Routes {
	return r.routes(w, route.Where{Gateways: refs}, way)
}

// ServiceRoutes makes what it says neutral, for pods that ask for a Service.
func (a Attachment) ServiceRoutes(w World, r Route) route.Routes {
	return r.routes(w, route.Where{Gateways: []string{route.Mesh}, Port: a.Port}, FromPods)
}

func (r Route) routes(w World, where route.Where, way Way) route.Routes {
	return route.ParseGatewayAPI(r.Object, where, func(b gatewayv1.BackendObjectReference) route.Destination {
		d, _ := r.Destination(w, b, way)
		return d
	})
}

// Backends are all that it names, each once for every place.
func (r Route) Backends() []route.Backend {
	return route.Backends(r.Object.Spec)
}

// Unsupported says what of it is not done: the whole is not accepted, since without it other requests would be answered than were meant.
func (r Route) Unsupported() Problem {
	field, why := route.Unsupported(r.Object.Spec)
	switch {
	case field == "":
		return Problem{}
	case why == route.Incompatible:
		return Problem{string(gatewayv1.RouteReasonIncompatibleFilters), field + ": " + why}
	default:
		return Problem{string(gatewayv1.RouteReasonUnsupportedValue), field + ": " + why}
	}
}

// twoSessions says which Service keeps its clients with its pods in a way of its own, beside a rule's sessions: the API wants such a route rejected
// (GEP-1619, "Session Affinity in K8S Services").
func (r Route) twoSessions(w World) Problem {
	for i, backends := range route.SessionBackends(r.Object.Spec) {
		for _, b := range backends {
			if name := r.BackendOf(b); or(b.Group, "") == "" && or(b.Kind, "Service") == "Service" && w.ByClientIP(name) {
				return Problem{string(gatewayv1.RouteReasonUnsupportedValue), fmt.Sprintf(
					"rules[%d].sessionPersistence: Service %s has sessionAffinity: ClientIP, which would keep clients with other pods: set the Service's to None, or remove the rule's", i, name)}
			}
		}
	}
	return Problem{}
}

// HasAsked says whether a route has an authorizer asked.
func HasAsked(o *config.Object) bool { return route.AsksAuthorizer(o.Spec) }
