package status

import (
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Route is what is told of a route, for its parents that are Gateways of ours or Services; false where it is no route.
func Route(s *registry.Snapshot, key config.Key) (gatewayv1.RouteStatus, bool) {
	w := s.World()
	o := w.Object(key)
	if o == nil {
		return gatewayv1.RouteStatus{}, false
	}
	r, is := gatewayapi.RouteOf(o)
	if !is {
		return gatewayv1.RouteStatus{}, false
	}
	out := gatewayv1.RouteStatus{Parents: []gatewayv1.RouteParentStatus{}}
	for _, a := range r.Attach(w) {
		refs := references(s, w, r, a)
		out.Parents = append(out.Parents, gatewayv1.RouteParentStatus{
			ParentRef: a.Parent, ControllerName: gatewayapi.Controller,
			Conditions: []metav1.Condition{
				accepted(s, key, a),
				condition(string(gatewayv1.RouteConditionResolvedRefs), string(gatewayv1.RouteReasonResolvedRefs), refs),
			},
		})
	}
	return out, true
}

// accepted says so, and of what is let out what of it does not count for all.
func accepted(s *registry.Snapshot, key config.Key, a gatewayapi.Attachment) metav1.Condition {
	c := condition(string(gatewayv1.RouteConditionAccepted), string(gatewayv1.RouteReasonAccepted), a.Problem)
	for _, l := range a.Leaves {
		for _, svc := range s.Services(l.Host) {
			if svc.Source == key && svc.Withheld != nil {
				c.Message = fmt.Sprintf("%s counts in namespace %s only: %s", l.Host, key.Namespace, svc.Withheld.Why)
			}
		}
	}
	return c
}

// references is the first problem of the backends that a route names.
func references(s *registry.Snapshot, w gatewayapi.World, r gatewayapi.Route, a gatewayapi.Attachment) gatewayapi.Problem {
	for _, b := range r.Backends() {
		if p := reference(s, w, r, a, b.BackendObjectReference); p.Is() {
			return p
		}
	}
	return gatewayapi.Problem{}
}

// Unresolved is a backend of a route that something is wrong with, as one of its parents is told.
type Unresolved struct {
	route.Backend
	gatewayapi.Problem
}

// Backends are all backends of a route that something is wrong with at one of its parents, of which the status says the first: in the order in which
// they are named, each problem once.
func Backends(s *registry.Snapshot, key config.Key) (out []Unresolved) {
	w := s.World()
	o := w.Object(key)
	if o == nil {
		return nil
	}
	r, is := gatewayapi.RouteOf(o)
	if !is {
		return nil
	}
	attached := r.Attach(w)
	for _, b := range r.Backends() {
		var said []gatewayapi.Problem
		for _, a := range attached {
			if p := reference(s, w, r, a, b.BackendObjectReference); p.Is() && !slices.Contains(said, p) {
				said = append(said, p)
				out = append(out, Unresolved{b, p})
			}
		}
	}
	return out
}

// reference is what is wrong with a backend, if anything is.
func reference(s *registry.Snapshot, w gatewayapi.World, r gatewayapi.Route, a gatewayapi.Attachment, ref gatewayv1.BackendObjectReference) gatewayapi.Problem {
	d, p := r.Destination(w, ref, a.Way())
	if p.Is() {
		return p
	}
	missing := func(what string) gatewayapi.Problem {
		return gatewayapi.Problem{Reason: string(gatewayv1.RouteReasonBackendNotFound), Message: fmt.Sprintf("backendRefs: %s %s", d.Host, what)}
	}
	svc := backend(s, r, ref, d.Host)
	switch {
	case a.Egress && slices.ContainsFunc(a.Leaves, func(l gatewayapi.Leaving) bool { return l.Host == d.Host }):
		return gatewayapi.Problem{} // it registers the host itself, and says where that is
	case svc == nil && gatewayapi.IsHostname(ref):
		return missing("is no host that namespace " + r.Object.Namespace + " sees: write a ServiceEntry for it, or export it")
	case svc == nil:
		return missing("is no Service that is known")
	case a.Egress:
		if svc.External && svc.Exit == s.StandsFor(a.Stands) && !svc.Wildcard() {
			break
		}
		return gatewayapi.Problem{
			Reason:  string(gatewayv1.RouteReasonRefNotPermitted),
			Message: fmt.Sprintf("backendRefs: %s is another host than the route lets out, and does not leave by its egress gateway as one name: name the host in hostnames, or lead to one that does", d.Host),
		}
	case svc.External && a.Way() == gatewayapi.Into:
		return gatewayapi.Problem{
			Reason:  string(gatewayv1.RouteReasonRefNotPermitted),
			Message: fmt.Sprintf("backendRefs: %s is outside of the mesh, and Gateways lead inside; routes whose parent is a Service lead pods there", d.Host),
		}
	}
	if p := notAsked(r, ref, svc, d); p.Is() {
		return p
	}
	if r.Kind == "UDPRoute" {
		if _, has := svc.DatagramPort(d.Port); !has {
			return missing(fmt.Sprintf("has no port %d for UDP", d.Port))
		}
	} else if port, has := svc.Port(d.Port); !has {
		return missing(fmt.Sprintf("has no port %d", d.Port))
	} else if port.Protocol == registry.UDP {
		return missing(fmt.Sprintf("has no port %d for TCP", d.Port))
	}
	return gatewayapi.Problem{}
}

// notAsked says why a backend is not asked by gRPC, where a filter wants that; its port may be missing yet.
func notAsked(r gatewayapi.Route, ref gatewayv1.BackendObjectReference, svc *registry.Service, d route.Destination) gatewayapi.Problem {
	port, has := svc.Port(d.Port)
	if !has || port.Protocol == registry.HTTP2 || !slices.ContainsFunc(route.AskedByGRPC(r.Object.Spec), func(asked gatewayv1.BackendObjectReference) bool { return reflect.DeepEqual(asked, ref) }) {
		return gatewayapi.Problem{}
	}
	return gatewayapi.Problem{
		Reason:  string(gatewayv1.RouteReasonUnsupportedProtocol),
		Message: fmt.Sprintf("filters: port %d of %s is asked by gRPC, and is not named so: name it grpc, or set appProtocol: kubernetes.io/h2c", d.Port, d.Host),
	}
}

// backend is the registration that a route's backend is; nil where there is none, or of a host where the route's namespace sees none.
func backend(s *registry.Snapshot, r gatewayapi.Route, ref gatewayv1.BackendObjectReference, host string) *registry.Service {
	if gatewayapi.IsHostname(ref) {
		return s.Visible(host, r.Object.Namespace, nil)
	}
	if list := s.Services(host); len(list) > 0 {
		return list[0]
	}
	return nil
}
