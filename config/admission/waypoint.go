package admission

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

const headless = "a headless Service has no waypoint, since its clients choose a pod themselves"

// waypointLabels says where a label asks for a waypoint that nothing is sent to.
func (r *report) waypointLabels() {
	value := r.of.Labels[gatewayapi.UseWaypointLabel]
	if value == "" || value == gatewayapi.NoWaypoint {
		return
	}
	field := strict.Join("metadata.labels", gatewayapi.UseWaypointLabel)
	switch spec := r.of.Spec.(type) {
	case *networking.ServiceEntry:
		if list, _ := unfrontedHosts(&r.of, spec, nil, usual); len(list) > 0 {
			r.reject(field, value, list[0].why, list[0].fix)
		}
	case *corev1.Service:
		if spec.Spec.ClusterIP == corev1.ClusterIPNone {
			r.warn(field, value, headless, "give the Service an address, or remove the label")
		}
	case *networking.WorkloadEntry:
		r.warn(field, value, "waypoints stand before pods without sidecars, and a machine has a proxy of its own: what goes to its address goes straight to it", "remove it, or label the Service")
	}
}

// ingressWaypoint says where a label has ingress gateways go by no waypoint, whatever it seems to say.
func (r *report) ingressWaypoint() {
	value := r.of.Labels[gatewayapi.IngressUseWaypointLabel]
	field := strict.Join("metadata.labels", gatewayapi.IngressUseWaypointLabel)
	switch service := r.of.Kind == config.KindService || r.of.Kind == config.KindNamespace; {
	case value == "" || strings.EqualFold(value, "false"):
	case !strings.EqualFold(value, "true"):
		r.warn(field, value, "it is neither true nor false, and ingress gateways go straight to pods", "write true, or false")
	case !service:
		r.warn(field, value, "ingress gateways go to Services by their waypoints, and it says nothing of those here", "label the Service, or its namespace")
	}
}

// judgeIngressed says where a Service asks ingress gateways to go by a waypoint that it does not have.
func (w *world) judgeIngressed(r *report, svc *corev1.Service) {
	if !registry.IngressByWaypoint(r.of.Labels) {
		return
	}
	why, fix := w.unfronted(&r.of, svc)
	if why == "" && registry.RequestedWaypoint(r.of.Namespace, r.of.Labels, w.namespaces[r.of.Namespace].Labels).IsZero() {
		why, fix = "neither the Service nor its namespace asks for a waypoint", "add the label "+gatewayapi.UseWaypointLabel
	}
	if why != "" {
		r.warn(strict.Join("metadata.labels", gatewayapi.IngressUseWaypointLabel), r.of.Labels[gatewayapi.IngressUseWaypointLabel], why+": ingress gateways go straight to the pods", cmp.Or(fix, "remove the label"))
	}
}

// fronted says whether a policy targets a Service, or a ServiceEntry, that is known to have a waypoint.
func (w *world) fronted(p selection.Workloads) bool {
	return w.entryFronted(p) || w.anyFronted(func(o *config.Object) bool { return o.Namespace == p.Namespace && slices.Contains(p.Services, o.Name) })
}

// anyFronted says whether one of some Services is known to have a waypoint.
func (w *world) anyFronted(of func(*config.Object) bool) bool {
	return slices.ContainsFunc(w.objects, func(o config.Object) bool {
		svc, is := o.Spec.(*corev1.Service)
		if !is || o.Kind != config.KindService || !of(&o) {
			return false
		}
		why, _ := w.unfronted(&o, svc)
		return why == "" && w.servesServices(registry.RequestedWaypoint(o.Namespace, o.Labels, w.namespaces[o.Namespace].Labels))
	})
}

// servesServices says whether a waypoint is asked for, and, as far as it is known, is for Services and hosts outside.
func (w *world) servesServices(ref registry.Ref) bool {
	o, there := w.kubeGateways[config.Key{Kind: config.KindKubeGateway, Namespace: ref.Namespace, Name: ref.Name}]
	if ref.IsZero() || !there || !gatewayapi.IsWaypoint(o.Spec.(*gatewayv1.GatewaySpec).GatewayClassName) {
		return !ref.IsZero()
	}
	is := w.trafficOf(o)
	why, _ := gatewayapi.UnknownFor(string(is))
	return why != "" || is.Is(gatewayapi.ToServices)
}

// judgeRoutesOfFronted says where a VirtualService for a Service that has a waypoint tells its clients apart, which a waypoint does not.
func (w *world) judgeRoutesOfFronted(r *report, vs *networking.VirtualService) {
	if len(vs.Gateways) > 0 && !slices.Contains(vs.Gateways, meshGateway) {
		return
	}
	field, export := bySource(vs), len(vs.ExportTo) > 0 && !slices.Contains(vs.ExportTo, "*")
	if field == "" && !export {
		return
	}
	if !w.anyFronted(func(o *config.Object) bool {
		return slices.ContainsFunc(vs.Hosts, func(h string) bool {
			return w.fullName(h, r.of.Namespace) == host.Name(o.Name+"."+o.Namespace+"."+clusterDomain)
		})
	}) {
		return
	}
	if field != "" {
		r.warn(field, nil, "the Service has a waypoint, which does not tell its clients by sourceNamespace and sourceLabels: all that pods behind nodes send to it is closed", "remove them, and write an AuthorizationPolicy for the Service where they are to keep others out")
	}
	if export {
		r.warn("spec.exportTo", strings.Join(vs.ExportTo, ", "), "the Service has a waypoint, where routes count for all clients if they are exported to the waypoint's namespace, and for none otherwise", "export it to all, or remove the Service's waypoint")
	}
}

// bySource is where a VirtualService first tells its clients apart; "" where it does not.
func bySource(vs *networking.VirtualService) string {
	for i, h := range vs.Http {
		if j := slices.IndexFunc(h.Match, tellsSource); j >= 0 {
			return at("spec.http", i, "match", j)
		}
	}
	for i, t := range vs.Tls {
		if j := slices.IndexFunc(t.Match, tellsSource); j >= 0 {
			return at("spec.tls", i, "match", j)
		}
	}
	for i, t := range vs.Tcp {
		if j := slices.IndexFunc(t.Match, tellsSource); j >= 0 {
			return at("spec.tcp", i, "match", j)
		}
	}
	return ""
}

func tellsSource[M interface {
	GetSourceNamespace() string
	GetSourceLabels() map[string]string
}](m M) bool {
	return m.GetSourceNamespace() != "" || len(m.GetSourceLabels()) > 0
}

// unfronted says why no waypoint stands before a Service, whatever labels say, and what to do where that is not said of it alone; "" where one may.
func (w *world) unfronted(o *config.Object, svc *corev1.Service) (why, fix string) {
	_, deployed := svc.Spec.Selector[gatewayapi.GatewayLabel]
	switch {
	case svc.Spec.ClusterIP == corev1.ClusterIPNone:
		return headless, "" // said of the object alone
	case o.Namespace == w.cfg.RootNamespace:
		return "Services of the root namespace have no waypoints: there the mesh's own are", "remove it, or move the Service to a namespace of its own"
	case deployed || w.gatewayPods(o, svc):
		return "a gateway has no waypoint", "remove it, and write policies for the gateway itself"
	}
	return "", ""
}

// gatewayPods says whether a Service is of an egress gateway, or Gateways of its own or the root namespace select its pods.
func (w *world) gatewayPods(o *config.Object, svc *corev1.Service) bool {
	at := o.Namespace + "/" + o.Name
	if at == w.cfg.DefaultGateway.Namespace+"/"+w.cfg.DefaultGateway.Name {
		return true
	}
	return slices.ContainsFunc(w.objects, func(g config.Object) bool {
		if g.Annotations[registry.GatewayAnnotation] == at {
			return true
		}
		spec, is := g.Spec.(*networking.Gateway)
		return is && (g.Namespace == o.Namespace || g.Namespace == w.cfg.RootNamespace) && len(spec.Selector) > 0 && len(svc.Spec.Selector) > 0 && hasLabels(svc.Spec.Selector, spec.Selector)
	})
}

// judgeFronted says where a Service's label asks for a waypoint that does not stand before it.
func (w *world) judgeFronted(r *report, svc *corev1.Service) {
	value := r.of.Labels[gatewayapi.UseWaypointLabel]
	if value == "" || value == gatewayapi.NoWaypoint {
		return
	}
	switch why, fix := w.unfronted(&r.of, svc); {
	case fix != "":
		r.warn(strict.Join("metadata.labels", gatewayapi.UseWaypointLabel), value, why, fix)
	case why == "":
		w.judgeWaypointThere(r)
	}
}

// judgeWaypointThere says where an object's label leads to no waypoint: what pods without sidecars send is closed then.
func (w *world) judgeWaypointThere(r *report) {
	ns := r.of.Namespace
	if r.of.Kind == config.KindNamespace {
		ns = r.of.Name
	}
	ref := registry.RequestedWaypoint(ns, r.of.Labels)
	if ref.IsZero() || r.of.Kind == config.KindNamespace && ns == w.cfg.RootNamespace || len(w.kubeGateways) == 0 && len(w.podAddresses) == 0 {
		return // where there are neither Gateways nor pods they are kept elsewhere
	}
	o, there := w.kubeGateways[config.Key{Kind: config.KindKubeGateway, Namespace: ref.Namespace, Name: ref.Name}]
	why, fix := "", "make a Gateway "+ref.String()+" of class istio-waypoint, or remove the label"
	if !there {
		why = "there is no such waypoint"
	} else if !gatewayapi.IsWaypoint(o.Spec.(*gatewayv1.GatewaySpec).GatewayClassName) {
		why = "the Gateway of that name is no waypoint"
	} else if w.leavesAlone(r, o) {
		return
	}
	if why != "" {
		r.warn(strict.Join("metadata.labels", gatewayapi.UseWaypointLabel), r.of.Labels[gatewayapi.UseWaypointLabel], why+": what pods without sidecars send there is closed", fix)
	}
}

// trafficOf is what a waypoint is for, as its label or that of its class says.
func (w *world) trafficOf(waypoint config.Object) gatewayapi.Traffic {
	class, there := w.classes[waypoint.Spec.(*gatewayv1.GatewaySpec).GatewayClassName]
	if !there {
		return gatewayapi.TrafficOf(&waypoint, nil)
	}
	return gatewayapi.TrafficOf(&waypoint, &class)
}

// leavesAlone says where a waypoint is not for what an object's label asks it for, as its own label says: that goes straight then.
func (w *world) leavesAlone(r *report, waypoint config.Object) bool {
	is := w.trafficOf(waypoint)
	if why, _ := gatewayapi.UnknownFor(string(is)); why != "" {
		return false
	}
	asks, whose := gatewayapi.ToServices, "Services and hosts outside"
	switch {
	case r.of.Kind == config.KindNamespace && is != gatewayapi.NoWaypoint:
		return false // it is for some of what the namespace has
	case r.of.Kind == config.KindPod:
		asks, whose = gatewayapi.ToWorkloads, "pods' own addresses"
	}
	if is.Is(asks) {
		return false
	}
	r.warn(strict.Join("metadata.labels", gatewayapi.UseWaypointLabel), r.of.Labels[gatewayapi.UseWaypointLabel],
		"the waypoint is not for "+whose+", as its label "+gatewayapi.WaypointForLabel+": "+string(is)+" says: what is sent there goes straight, and policies for the waypoint say nothing of it",
		"write "+string(asks)+", or all, there, or remove the label here")
	return true
}

// judgePodFronted says where a pod's label asks for a waypoint that does not stand before its address.
func (w *world) judgePodFronted(r *report, pod *corev1.Pod) {
	value := r.of.Labels[gatewayapi.UseWaypointLabel]
	if value == "" || value == gatewayapi.NoWaypoint {
		return
	}
	asked := registry.PodRequestedWaypoint(r.of.Namespace, r.of.Labels, w.namespaces[r.of.Namespace].Labels, w.cfg.RootNamespace)
	if asked.IsZero() || pod.Spec.HostNetwork {
		r.warn(strict.Join("metadata.labels", gatewayapi.UseWaypointLabel), value, "waypoints stand before the own addresses of pods that are in the mesh without sidecars, and this is none: what goes to its address goes straight to it, and policies for the waypoint say nothing of it",
			"add the label "+registry.AmbientLabel+": ambient to the pod or its namespace, or remove it")
		return
	}
	w.judgeWaypointThere(r)
}

// waypointFor says where the label of a waypoint asks for what waypoints do not do.
func (r *report) waypointFor() {
	to := r.of.Labels[gatewayapi.WaypointForLabel]
	if why, fix := gatewayapi.UnknownFor(to); why != "" {
		r.warn(strict.Join("metadata.labels", gatewayapi.WaypointForLabel), to, why+"; the Gateway is not accepted, and what is for it is closed", fix)
	}
}
