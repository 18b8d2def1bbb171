package admission

import (
	"reflect"
	"slices"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
)

// CheckGateways says of objects of the Gateway API, before they are applied, what their statuses would say that does not count: it stands beside
// CheckAt, for who has no status to read; of Istio's Gateways, which of their servers nobody opens. It reads the statuses themselves, so that both say the same. What Validate says of an object is not
// repeated, and what is missing is told by the rule of Check.
func CheckGateways(objs []config.Object, cfg mesh.Config) []Finding {
	objects, _ := sorted(objs)
	if !slices.ContainsFunc(objects, func(o config.Object) bool { return hasGatewayStatus(&o) || o.Kind == config.KindGateway }) {
		return nil
	}
	g := &gatewayStatuses{objects: objects, has: map[string]bool{}, known: map[config.Key][]Finding{}, ingresses: map[config.Key][]resolve.Ingress{}}
	var changes []config.Change
	for i := range objects {
		o := &objects[i]
		g.has[string(o.Kind)], g.has[string(o.Kind)+" of "+o.Namespace] = true, true
		if g.known[o.Key] = Validate(*o); !Refused(g.known[o.Key]) {
			changes = append(changes, config.Change{Key: o.Key, Object: o})
		}
	}
	g.s, _ = registry.New(&cfg).Apply(changes)
	g.hidden = status.NeverAsked(g.s, routesAmong(changes))
	var findings []Finding
	for i := range objects {
		switch {
		case hasGatewayStatus(&objects[i]):
			findings = append(findings, g.about(&objects[i])...)
		case objects[i].Kind == config.KindGateway:
			r := &report{of: objects[i]}
			g.servers(r)
			findings = append(findings, r.findings...)
		}
	}
	Sort(findings)
	return findings
}

// routesAmong are the routes of the Gateway API among objects.
func routesAmong(changes []config.Change) (out []*config.Object) {
	for _, c := range changes {
		if _, is := gatewayapi.RouteOf(c.Object); is {
			out = append(out, c.Object)
		}
	}
	return out
}

// hasGatewayStatus says whether an object has a status that is asked here.
func hasGatewayStatus(o *config.Object) bool {
	_, is := gatewayapi.RouteOf(o)
	return is || asksForWaypoint(o) || o.Kind == config.KindKubeGateway || o.Kind == config.KindListenerSet || o.Kind == config.KindBackendTLSPolicy
}

// asksForWaypoint says whether an object's own label asks for one.
func asksForWaypoint(o *config.Object) bool {
	switch o.Kind {
	case config.KindService, config.KindPod, config.KindNamespace, config.KindServiceEntry:
		name := o.Labels[gatewayapi.UseWaypointLabel]
		return name != "" && name != gatewayapi.NoWaypoint
	}
	return false
}

// gatewayStatuses are the statuses of objects that are not applied yet.
type gatewayStatuses struct {
	s       *registry.Snapshot
	objects []config.Object
	has     map[string]bool          // kinds of which there is an object, and "KIND of NAMESPACE"
	known   map[config.Key][]Finding // what Validate says of each object
	hidden  map[config.Key][]status.Hidden

	ingresses map[config.Key][]resolve.Ingress // of Gateways, as far as they were asked for
}

// refused says whether that is said of an object, and not that it is missing.
func (g *gatewayStatuses) refused(key config.Key) bool { return Refused(g.known[key]) }

// about is what an object's status would say that does not count.
func (g *gatewayStatuses) about(o *config.Object) []Finding {
	c := conditions{gatewayStatuses: g, report: &report{of: *o}, said: map[string]bool{}}
	switch spec := o.Spec.(type) {
	case *gatewayv1.GatewaySpec:
		c.gateway(spec)
	case *gatewayv1.ListenerSetSpec:
		c.listenerSet()
	case *gatewayv1.BackendTLSPolicySpec:
		told, _ := status.BackendTLS(g.s, o.Key)
		for _, a := range told.Ancestors {
			c.say("spec", a.Conditions, string(gatewayv1.PolicyConditionAccepted), "the policy does not count there, or closes what it is for")
			c.say("spec", a.Conditions, string(gatewayv1.BackendTLSPolicyConditionResolvedRefs), "nobody is trusted by it")
		}
	case *corev1.Service, *corev1.Pod, *corev1.Namespace, *networking.ServiceEntry:
		c.waypoint()
	default:
		c.route()
	}
	return c.report.findings
}

// waypoint says of what asks for one where that does not take it. One that is not there, or is for other things, Check tells of.
func (c *conditions) waypoint() {
	o := &c.report.of
	ns, of := o.Namespace, gatewayapi.ToServices
	switch o.Kind {
	case config.KindNamespace:
		ns, of = o.Name, ""
	case config.KindPod:
		of = gatewayapi.ToWorkloads
		if registry.PodRequestedWaypoint(ns, o.Labels, c.s.NamespaceLabels(ns), c.s.Mesh.RootNamespace).IsZero() {
			return
		}
	default:
		if !c.isFronted(o) {
			return
		}
	}
	ref := registry.RequestedWaypoint(ns, o.Labels)
	if !c.s.IsWaypoint(ref) || of != "" && gatewayapi.Leaves(c.s.World(), ref.Namespace, ref.Name, of) || ns == c.s.Mesh.RootNamespace {
		return
	}
	why := ""
	if _, why = gatewayapi.Waypoint(c.s.World(), ref.Namespace, ref.Name, ns); why == "" || ns != ref.Namespace && c.asksForLabels() && !c.has[string(config.KindNamespace)] {
		return
	}
	c.warn("metadata.labels["+strconv.Quote(gatewayapi.UseWaypointLabel)+"]", ref.Name, why+": what pods without sidecars send there is closed", "mend the Gateway "+ref.String()+", whose listener's allowedRoutes say which other namespaces use it, or remove the label")
}

// isFronted says whether a Service, or a host of an entry, is one that a waypoint may stand before.
func (c *conditions) isFronted(o *config.Object) bool {
	hosts := []string{registry.Ref{Namespace: o.Namespace, Name: o.Name}.Host()}
	if spec, is := o.Spec.(*networking.ServiceEntry); is {
		hosts = spec.Hosts
	}
	return slices.ContainsFunc(hosts, func(h string) bool {
		return slices.ContainsFunc(c.s.Services(registry.CanonicalHost(h)), func(svc *registry.Service) bool {
			_, has := c.s.Waypoint(svc)
			return has && svc.Source == o.Key
		})
	})
}

// gateway says whether anybody opens a Gateway, and of each listener whether it would be opened.
func (c *conditions) gateway(spec *gatewayv1.GatewaySpec) {
	told, ours := status.Gateway(c.s, c.report.of.Key)
	if !ours {
		c.class(spec.GatewayClassName)
		return
	}
	for i, l := range told.Listeners {
		c.listener(at("spec.listeners", i), l.Conditions)
	}
	if _, named := gatewayapi.EgressService(spec); named {
		programmed := slices.DeleteFunc(slices.Clone(told.Conditions), func(x metav1.Condition) bool { return x.Reason != string(gatewayv1.GatewayReasonAddressNotUsable) })
		c.say("spec", programmed, string(gatewayv1.GatewayConditionProgrammed), "")
	}
	c.say("spec", told.Conditions, string(gatewayv1.GatewayConditionResolvedRefs), "backends are shown no certificate")
}

func (c *conditions) listenerSet() {
	o := &c.report.of
	if key, of := gatewayapi.SetParent(o); of && c.missing(key) {
		c.warn("spec.parentRef", key.Namespace+"/"+key.Name, "there is no such Gateway, so the listeners are nobody's", "create the Gateway, or mend the name")
	}
	told, _ := status.ListenerSet(c.s, o.Key)
	for i, l := range told.Listeners {
		c.listener(at("spec.listeners", i), l.Conditions)
	}
	if len(told.Listeners) == 0 {
		c.say("spec", told.Conditions, string(gatewayv1.ListenerSetConditionAccepted), "nothing comes in at its listeners")
	}
}

// route says which parents of a route take nothing of it, and which backends get nothing.
func (c *conditions) route() {
	route, _ := gatewayapi.RouteOf(&c.report.of)
	for i, p := range route.Parents {
		gateway, is := route.GatewayOf(p)
		if !is {
			gateway, is = route.SetOf(p)
		}
		if is && c.missing(gateway) {
			kind := "Gateway"
			if gateway.Kind == config.KindListenerSet {
				kind = "ListenerSet"
			}
			c.warn(at("spec.parentRefs", i), gateway.Namespace+"/"+gateway.Name, "there is no such "+kind+", so nothing is led by the route there", "create the "+kind+", or mend the name")
		}
	}
	told, _ := status.Route(c.s, c.report.of.Key)
	for _, p := range told.Parents {
		field := at("spec.parentRefs", slices.IndexFunc(route.Parents, func(x gatewayv1.ParentReference) bool { return reflect.DeepEqual(x, p.ParentRef) }))
		if service, is := route.ServiceOf(p.ParentRef); is {
			if key := (config.Key{Kind: config.KindService, Namespace: service.Namespace, Name: service.Name}); c.s.World().Object(key) == nil && !c.has[string(key.Kind)] {
				continue
			}
		}
		clear(c.said) // of each parent by itself
		c.say(field, p.Conditions, string(gatewayv1.RouteConditionAccepted), "nothing is led by the route there")
	}
	for _, h := range c.hidden[c.report.of.Key] {
		by := h.By.String() + ": "
		if h.By == c.report.of.Key {
			by = ""
		}
		c.warn("spec."+h.Field, nil, "is never asked: "+by+"spec."+h.ByField+" asks for the same, for the same hosts, and comes first", "write what tells the two apart, or remove one")
	}
	clear(c.said)
	unresolved := status.Backends(c.s, c.report.of.Key)
	for _, b := range unresolved {
		name := route.BackendOf(b.BackendObjectReference)
		if !c.refused(config.Key{Kind: config.KindService, Namespace: name.Namespace, Name: name.Name}) {
			c.backend(b)
		}
	}
	c.deadEnds(route, unresolved)
}

// missing says that an object is not there, where others of its kind are.
func (c *conditions) missing(key config.Key) bool {
	_, there := c.known[key]
	return c.has[string(key.Kind)] && !there
}
