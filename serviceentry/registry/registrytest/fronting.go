package registrytest

import (
	"fmt"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	typev1beta1 "istio.io/api/type/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// FrontingWaypoint is a waypoint of Fronting's: its Gateway, and where its only pod is.
type FrontingWaypoint struct{ Namespace, Name, Address string }

// FrontingWaypoints are those that there may be.
var FrontingWaypoints = []FrontingWaypoint{{"store", "waypoint", "10.4.9.1"}, {"default", "waypoint", "10.4.9.2"}, {"team-b", "shared", "10.4.9.3"}}

// FrontingPods are pods without sidecars, of FrontingNamespaces in turn.
var FrontingPods = []string{"10.4.8.1", "10.4.8.2", "10.4.8.3", "10.4.8.4"}

// FrontingNamespaces are those whose pods have no sidecars.
var FrontingNamespaces = []string{"store", "default"}

// Fronting makes pods of some of a mesh's namespaces ones without sidecars, and puts waypoints before some of its Services, its entries and these pods, with policies that
// target them and routes that count there.
func (w *World) Fronting(hosts []string) {
	for _, f := range FrontingWaypoints {
		if w.rand.IntN(8) > 0 {
			w.waypoint(f)
		}
	}
	for _, ns := range FrontingNamespaces {
		for _, name := range []string{"web", "db", "api"} {
			if w.rand.IntN(3) == 0 {
				w.put(w.made(config.KindService, ns, name, w.frontedService(name), nil))
			}
		}
	}
	for i, at := range FrontingPods {
		p := &corev1.Pod{}
		p.Spec.ServiceAccountName, p.Status.PodIP = pick(w, []string{"app", "default"}), at
		p.Labels = map[string]string{"app": pick(w, []string{"web", "db", "api"}), gatewayapi.UseWaypointLabel: pick(w, []string{"", "", "waypoint", gatewayapi.NoWaypoint})}
		o := w.made(config.KindPod, FrontingNamespaces[i%2], fmt.Sprintf("pod-%d", i), p, nil)
		o.Labels = p.Labels
		w.put(o)
	}
	for _, ns := range append([]string{"team-a"}, FrontingNamespaces...) {
		key := config.Key{Kind: config.KindNamespace, Name: ns}
		o := w.Objects[key]
		if o == nil {
			o = w.made(config.KindNamespace, "", ns, &corev1.Namespace{}, nil)
		}
		o.Labels = maps.Clone(o.Labels)
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		if slices.Contains(FrontingNamespaces, ns) {
			o.Labels["istio.io/dataplane-mode"] = "ambient"
		}
		maps.Copy(o.Labels, w.useWaypoint())
		w.put(o)
	}
	for _, key := range slices.SortedFunc(maps.Keys(w.Objects), config.Key.Compare) {
		o := w.Objects[key]
		_, service := o.Spec.(*corev1.Service)
		entry, _ := o.Spec.(*networking.ServiceEntry)
		if (service && w.rand.IntN(3) == 0 || entry != nil && w.rand.IntN(2) == 0) && o.Labels == nil {
			o.Labels = w.useWaypoint()
		}
	}
	for range w.rand.IntN(4) {
		w.put(w.serviceRoute(pick(w, FrontingNamespaces), FrontingNamespaces, []string{"web", "db", "api"}, []uint32{80, 5432, 8080}))
	}
	for i := range w.rand.IntN(4) {
		w.put(w.aged(w.made(config.KindVirtualService, pick(w, FrontingNamespaces), fmt.Sprintf("front%d", i), w.frontedRoutes(hosts), nil)))
	}
	w.authorizers()
	for range 1 + w.rand.IntN(5) {
		w.frontingPolicy(hosts)
	}
	maps.DeleteFunc(w.Objects, func(_ config.Key, o *config.Object) bool { return sidecarsAlone(o) })
}

// sidecarsAlone says of an object that the proxies of nodes do not do for their pods what it says.
func sidecarsAlone(o *config.Object) bool {
	switch spec := o.Spec.(type) {
	case *networking.Sidecar:
		return true
	case *networking.DestinationRule:
		shows := spec.GetTrafficPolicy().GetTls().GetCredentialName()
		for _, p := range spec.GetTrafficPolicy().GetPortLevelSettings() {
			shows += p.GetTls().GetCredentialName()
		}
		return spec.WorkloadSelector != nil || shows != ""
	default:
		return false
	}
}

// useWaypoint are labels that ask for one of the waypoints, for none, for one that is not there, or that say nothing.
func (w *World) useWaypoint() map[string]string {
	f := pick(w, FrontingWaypoints)
	one := map[string]string{gatewayapi.UseWaypointLabel: f.Name, gatewayapi.UseWaypointNamespaceLabel: f.Namespace}
	own := map[string]string{gatewayapi.UseWaypointLabel: "waypoint"}
	return pick(w, []map[string]string{nil, own, own, own, one, one, one, one, {gatewayapi.UseWaypointLabel: gatewayapi.NoWaypoint}, {gatewayapi.UseWaypointLabel: "gone"}})
}

// waypoint is one, at times without a pod, or for its own namespace alone.
func (w *World) waypoint(f FrontingWaypoint) {
	labels := map[string]string{gatewayapi.GatewayLabel: f.Name}
	l := gatewayv1.Listener{Name: "mesh", Port: gatewayapi.HBONEPort, Protocol: gatewayapi.HBONE}
	if all := gatewayv1.NamespacesFromAll; w.rand.IntN(6) > 0 {
		l.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}}
	}
	g := w.made(config.KindKubeGateway, f.Namespace, f.Name, &gatewayv1.GatewaySpec{GatewayClassName: "istio-waypoint", Listeners: []gatewayv1.Listener{l}}, nil)
	g.Labels = pick(w, []map[string]string{nil, nil, {gatewayapi.WaypointForLabel: "service"}, {gatewayapi.WaypointForLabel: "all"}, {gatewayapi.WaypointForLabel: "all"}, {gatewayapi.WaypointForLabel: "workload"}})
	w.put(g)
	s := &corev1.Service{}
	mesh, port := "mesh", int32(gatewayapi.HBONEPort)
	s.Spec.ClusterIP, s.Spec.Selector, s.Spec.Ports = w.clusterIP(), labels, []corev1.ServicePort{{Name: mesh, Port: port}}
	w.put(w.made(config.KindService, f.Namespace, f.Name, s, nil))
	if w.rand.IntN(10) == 0 {
		return
	}
	slice := w.made(config.KindEndpointSlice, f.Namespace, f.Name+"-1", &discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &mesh, Port: &port}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{f.Address}}},
	}, nil)
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: f.Name}
	w.put(slice)
	p := &corev1.Pod{}
	p.Labels, p.Spec.ServiceAccountName, p.Status.PodIP = map[string]string{gatewayapi.GatewayLabel: f.Name, "istio.io/dataplane-mode": "none"}, f.Name, f.Address
	o := w.made(config.KindPod, f.Namespace, f.Name+"-1", p, nil)
	o.Labels = p.Labels
	w.put(o)
}

func (w *World) frontedService(name string) *corev1.Service {
	s := &corev1.Service{}
	s.Spec.ClusterIP, s.Spec.Selector = w.clusterIP(), map[string]string{"app": name}
	s.Spec.Ports = w.someOf([]corev1.ServicePort{{Name: "http", Port: 80}, {Name: "tcp", Port: 5432}, {Name: "tls", Port: 443}, {Name: "http-alt", Port: 8080}})
	return s
}

// frontedRoutes are routes for a Service, or a host outside, that lead there, elsewhere, or nowhere.
func (w *World) frontedRoutes(hosts []string) *networking.VirtualService {
	service := func() string {
		return pick(w, []string{"web", "db", "api"}) + "." + pick(w, FrontingNamespaces) + ".svc.cluster.local"
	}
	v := &networking.VirtualService{Hosts: []string{service()}}
	if w.rand.IntN(3) == 0 {
		v.Hosts = []string{pick(w, hosts)}
	}
	for range 1 + w.rand.IntN(3) {
		h := w.meshHTTPRoute()
		for _, r := range h.Route {
			switch w.rand.IntN(4) {
			case 0:
				r.Destination = &networking.Destination{Host: service()}
			case 1:
				r.Destination = &networking.Destination{Host: pick(w, hosts)}
			default:
				r.Destination = &networking.Destination{Host: v.Hosts[0]}
			}
		}
		v.Http = append(v.Http, h)
	}
	return v
}

// frontingPolicy is an AuthorizationPolicy that targets a waypoint, a Service, or an entry, or, mostly of the root namespace, all waypoints of a class.
func (w *World) frontingPolicy(hosts []string) {
	ns := pick(w, append([]string{"team-b"}, FrontingNamespaces...))
	ofClass := w.rand.IntN(5) == 0
	if ofClass && w.rand.IntN(4) > 0 {
		ns = "istio-system"
	}
	o := w.Authorization(ns, hosts)
	p := o.Spec.(*security.AuthorizationPolicy)
	p.Selector = nil
	waypoint := "waypoint"
	if ns == "team-b" {
		waypoint = "shared"
	}
	p.TargetRefs = []*typev1beta1.PolicyTargetReference{pick(w, []*typev1beta1.PolicyTargetReference{
		{Group: "gateway.networking.k8s.io", Kind: "Gateway", Name: waypoint}, {Group: "gateway.networking.k8s.io", Kind: "Gateway", Name: waypoint},
		{Kind: "Service", Name: pick(w, []string{"web", "db", "api"})}, {Group: "networking.istio.io", Kind: "ServiceEntry", Name: fmt.Sprintf("e%d", w.rand.IntN(20))},
	})}
	if ofClass {
		p.TargetRefs[0] = &typev1beta1.PolicyTargetReference{Group: "gateway.networking.k8s.io", Kind: "GatewayClass", Name: pick(w, []string{"istio-waypoint", "istio-waypoint", "sallyport-waypoint"})}
	}
	if w.rand.IntN(4) == 0 {
		if w.rand.IntN(2) == 0 {
			p.Rules = []*security.Rule{{}}
		}
		p.Action, o.Annotations = security.AuthorizationPolicy_CUSTOM, nil
		p.ActionDetail = &security.AuthorizationPolicy_Provider{Provider: &security.AuthorizationPolicy_ExtensionProvider{Name: pick(w, []string{"grpc", "grpc", "http", "none"})}}
	}
	o.Key.Name = fmt.Sprintf("front-%d", w.rand.IntN(6))
	w.put(o)
}
