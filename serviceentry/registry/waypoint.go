package registry

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/selection"
	"github.com/sallyport/sallyport/serviceentry/tokens"
)

// Which Services, and hosts outside (of pods: waypointpod.go), have a waypoint: a proxy that stands before them, to which the proxies of their clients send what is for them.

// WaypointPort is where a waypoint takes what is for the Services that it stands before, by mutual TLS of the mesh.
var WaypointPort = Port{Name: "mesh", Number: gatewayapi.HBONEPort, TargetPort: gatewayapi.HBONEPort, Explicit: true, Protocol: TCP}

// WaypointUse is the waypoint that a Service, or a host outside, asks for.
type WaypointUse struct {
	Gateway Ref    // its Gateway, and the Service of its pods
	Missing string // why it cannot be used: what is for it is closed then; "" where it can
}

// Waypoint gives the waypoint of a Service, or a host outside, as its object's own label or the namespace's says; false where what is for it goes straight. A
// headless Service has none, since its clients choose a pod themselves, and gateways and waypoints have none.
func (s *Snapshot) Waypoint(svc *Service) (WaypointUse, bool) {
	if !svc.Waypoint.IsZero() {
		if gatewayapi.Leaves(s.World(), svc.Waypoint.Namespace, svc.Waypoint.Name, gatewayapi.ToServices) {
			return WaypointUse{}, false
		}
		return s.entryWaypoint(svc), true
	}
	if svc.Source.Kind != config.KindService || svc.Headless() {
		return WaypointUse{}, false
	}
	ref, _ := RefOf(svc.Host)
	k, ok := s.KubeService(ref)
	if !ok || k.Waypoint.IsZero() || s.IsGateway(ref) || s.HasReservedAddress(svc) {
		return WaypointUse{}, false
	}
	if gatewayapi.Leaves(s.World(), k.Waypoint.Namespace, k.Waypoint.Name, gatewayapi.ToServices) {
		return WaypointUse{}, false
	}
	_, why := gatewayapi.Waypoint(s.World(), k.Waypoint.Namespace, k.Waypoint.Name, svc.Namespace)
	return WaypointUse{k.Waypoint, why}, true
}

// WaypointsOf are the waypoints by which what is registered for a host is reached: those that can be used, in order.
func (s *Snapshot) WaypointsOf(host string) (out []Ref) {
	for _, svc := range s.Services(host) {
		if use, has := s.Waypoint(svc); has && use.Missing == "" && !slices.Contains(out, use.Gateway) {
			out = append(out, use.Gateway)
		}
	}
	slices.SortFunc(out, func(a, b Ref) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) })
	return out
}

// IngressWaypoint gives the waypoint by which ingress gateways go to a Service; false where they go straight to its pods.
func (s *Snapshot) IngressWaypoint(svc *Service) (WaypointUse, bool) {
	if svc.Source.Kind != config.KindService {
		return WaypointUse{}, false
	}
	ref, _ := RefOf(svc.Host)
	if k, ok := s.KubeService(ref); !ok || !k.Ingressed {
		return WaypointUse{}, false
	}
	return s.Waypoint(svc)
}

// HasReservedAddress says whether a Service is one of the mesh's reserved addresses.
func (s *Snapshot) HasReservedAddress(svc *Service) bool {
	return slices.ContainsFunc(svc.Addresses, func(p netip.Prefix) bool { return p.IsSingleIP() && slices.Contains(s.ReservedAddresses(), p.Addr()) })
}

// IsWaypoint says whether a Gateway is a waypoint. Its pods, and their Service, have its name.
func (s *Snapshot) IsWaypoint(ref Ref) bool { return isWaypoint(s.gatewayAPI.Get, ref) }

// ofWaypoint says so of an object.
func ofWaypoint(o *config.Object) bool {
	if o == nil {
		return false
	}
	spec, is := o.Spec.(*gatewayv1.GatewaySpec)
	return is && gatewayapi.IsWaypoint(spec.GatewayClassName)
}

func isWaypoint(find func(string) (*config.Object, bool), ref Ref) bool {
	o, there := find(config.Key{Kind: config.KindKubeGateway, Namespace: ref.Namespace, Name: ref.Name}.String())
	return there && ofWaypoint(o)
}

// WaypointOf is the waypoint that a pod is of by its labels; zero where it is of none.
func (s *Snapshot) WaypointOf(ns string, labels map[string]string) Ref {
	ref := Ref{ns, labels[gatewayapi.GatewayLabel]}
	if ref.Name == "" || !s.IsWaypoint(ref) {
		return Ref{}
	}
	return ref
}

// BehindWaypoint says whether a pod without a sidecar is one of a Service that has a waypoint, or has one before its own address: then mutual TLS of the mesh is told apart at all
// of its ports, as it is of those whose label asks for it.
func (s *Snapshot) BehindWaypoint(ns string, labels map[string]string) (behind bool) {
	if s.frontedByItself(ns, labels) {
		return true
	}
	s.kube.in(ns, func(k *KubeService) bool {
		behind = k.fronts(labels)
		return !behind
	})
	return behind
}

// selectedBy is a label with its value.
type selectedBy struct{ key, value string }

// behindWaypoint is BehindWaypoint while a batch is committed, when Services do not change any more: they are gone through once for each of their
// namespaces, and not for each endpoint.
func (b *batch) behindWaypoint(ns string, labels map[string]string) bool {
	fronting, known := b.fronting[ns]
	if !known {
		fronting = b.frontingBy(ns)
		b.fronting[ns] = fronting
	}
	for key, value := range labels {
		if slices.ContainsFunc(fronting[selectedBy{key, value}], func(k *KubeService) bool { return k.fronts(labels) }) {
			return true
		}
	}
	return false
}

// frontingBy are the Services of a namespace that have a waypoint, each by the label of its selector that the fewest of them ask for.
func (b *batch) frontingBy(ns string) map[selectedBy][]*KubeService {
	var all []*KubeService
	asked := map[selectedBy]int{}
	for key := range b.index.services[ns] {
		k, _ := b.kube.Get(Ref{key.Namespace, key.Name})
		if k == nil || k.Waypoint.IsZero() || len(k.Selector) == 0 {
			continue
		}
		all = append(all, k)
		for key, value := range k.Selector {
			asked[selectedBy{key, value}]++
		}
	}
	out := map[selectedBy][]*KubeService{}
	for _, k := range all {
		var rarest selectedBy
		for key, value := range k.Selector {
			if l := (selectedBy{key, value}); rarest.key == "" || asked[l] < asked[rarest] {
				rarest = l
			}
		}
		out[rarest] = append(out[rarest], k)
	}
	return out
}

// fronts says whether the Service has a waypoint, and a pod with these labels.
func (k *KubeService) fronts(labels map[string]string) bool {
	return !k.Waypoint.IsZero() && len(k.Selector) > 0 && selects(k.Selector, labels)
}

// useWaypoint reads which waypoint a Service asks for: the narrowest word counts.
func (b *batch) useWaypoint(o *config.Object, selector map[string]string) Ref {
	if _, gateway := selector[gatewayapi.GatewayLabel]; gateway || o.Namespace == b.next.Mesh.RootNamespace {
		return Ref{}
	}
	return RequestedWaypoint(o.Namespace, o.Labels, b.next.namespaces[o.Namespace])
}

// RequestedWaypoint reads which waypoint labels of an object, or of its namespace, ask for; the first that say anything count.
func RequestedWaypoint(ns string, words ...map[string]string) Ref {
	for _, labels := range words {
		switch name := labels[gatewayapi.UseWaypointLabel]; name {
		case "":
		case gatewayapi.NoWaypoint:
			return Ref{}
		default:
			return Ref{cmp.Or(labels[gatewayapi.UseWaypointNamespaceLabel], ns), name}
		}
	}
	return Ref{}
}

// IngressByWaypoint reads whether labels of a Service, or of its namespace, have ingress gateways go by its waypoint; the first that say anything count.
func IngressByWaypoint(words ...map[string]string) bool {
	for _, labels := range words {
		if said := labels[gatewayapi.IngressUseWaypointLabel]; said != "" {
			return strings.EqualFold(said, "true")
		}
	}
	return false
}

// relabelWaypoints looks again at the Services of a namespace whose labels are others, as far as those say anything of waypoints and of who is
// in the mesh.
func (b *batch) relabelWaypoints(ns string, was map[string]string) {
	now := b.next.namespaces[ns]
	same := func(keys ...string) bool {
		return !slices.ContainsFunc(keys, func(k string) bool { return was[k] != now[k] })
	}
	if !same(gatewayapi.UseWaypointLabel, gatewayapi.UseWaypointNamespaceLabel, gatewayapi.IngressUseWaypointLabel, AmbientLabel) {
		b.fronted[ns] = true
		b.relabelPods(ns)
		b.changed.Waypoints = b.changed.Waypoints || len(b.index.pods[ns]) > 0 // what its pods take
		for key := range b.index.services[ns] {
			b.setKube(Ref{key.Namespace, key.Name})
		}
	}
	for in := range b.index.podClaims.networks { // a waypoint of another namespace may ask for the labels
		if in.namespace == ns && in.waypoint.Namespace != ns {
			b.changed.Waypoints = true
		}
	}
	for key := range b.index.services[ns] { // a waypoint of another namespace may ask for the labels
		if k, _ := b.kube.Get(Ref{key.Namespace, key.Name}); k != nil && !k.Waypoint.IsZero() && k.Waypoint.Namespace != ns {
			b.changed.Waypoints = true
		}
	}
}

// noteWaypoint notes that a Service's waypoint, or whom it stands before, may be another.
func (b *batch) noteWaypoint(was, is *KubeService) {
	of := func(k *KubeService) Ref {
		if k == nil {
			return Ref{}
		}
		return k.Waypoint
	}
	if of(was).IsZero() && of(is).IsZero() {
		return
	}
	if of(was) != of(is) || was.Ingressed != is.Ingressed { // of the same waypoint, there are both
		b.changed.Waypoints = true
	} else if was != nil && is != nil && maps.Equal(was.Selector, is.Selector) {
		return // the same pods, behind the same waypoint
	}
	for _, k := range [...]*KubeService{was, is} {
		if k != nil {
			b.fronted[k.Ref.Namespace] = true
		}
	}
}

// noteSelected notes that Services whose labels ask for a waypoint do not have one while a Gateway selects their pods.
func (b *batch) noteSelected(g *Gateway) {
	if g == nil || len(g.Selector) == 0 {
		return
	}
	for ns, services := range b.index.services {
		if ns != g.Key.Namespace && g.Key.Namespace != b.next.Mesh.RootNamespace {
			continue
		}
		for key := range services {
			if k, _ := b.kube.Get(Ref{key.Namespace, key.Name}); k != nil && !k.Waypoint.IsZero() && g.Selects(k) {
				b.changed.Waypoints = true
				return
			}
		}
	}
}

// settleWaypoints looks again at who takes mutual TLS for a waypoint's sake.
func (b *batch) settleWaypoints() {
	for ns := range b.fronted {
		for key := range b.index.services[ns] {
			b.peopled[key] = true
		}
	}
}

// noteWaypoints says whether waypoints have other pods.
func (b *batch) noteWaypoints() {
	for _, hosts := range [...]map[string]bool{b.repopulated, b.touched} {
		for host := range hosts {
			if ref, of := RefOf(host); of && isWaypoint(b.gatewayAPI.Get, ref) {
				b.changed.Waypoints = true
				return
			}
		}
	}
}

// AmbientLabel is Istio's, of pods and namespaces that are in the mesh without sidecars.
const AmbientLabel = "istio.io/dataplane-mode"

// Ambient says whether pods of a namespace, with these labels, are in the mesh by their node's proxy, unless they have a sidecar.
func (s *Snapshot) Ambient(ns string, labels map[string]string) bool {
	return isAmbient(labels, s.namespaces[ns])
}

func isAmbient(labels, namespace map[string]string) bool {
	return cmp.Or(labels[AmbientLabel], namespace[AmbientLabel]) == "ambient"
}

// ByNode says whether a pod with these labels has no sidecar, and is in the mesh by its node's proxy.
func (s *Snapshot) ByNode(ns string, labels map[string]string) bool {
	return byNode(ns, labels, s.namespaces[ns], s.Mesh.RootNamespace)
}

func byNode(ns string, labels, namespace map[string]string, root string) bool {
	return isAmbient(labels, namespace) && !proxied(labels) && ns != root && !slices.Contains(SystemNamespaces, ns)
}

// SystemNamespaces have no pods in the mesh without sidecars, whatever they are labelled, nor does the root namespace: what the mesh itself needs to start
// cannot wait for it. Nodes' agents have the same list (package sidecar/nodeguard).
var SystemNamespaces = []string{"kube-system", "kube-public", "kube-node-lease"}

// front notes of endpoints of a namespace which of them are pods without sidecars that a waypoint stands before.
func (b *batch) front(ns string, list []Endpoint) {
	for i := range list {
		e := &list[i]
		e.Fronted = b.next.ByNode(ns, e.Labels) && e.Cluster == "" && b.behindWaypoint(ns, e.Labels)
	}
}

// WaypointEndpoints are endpoints as a waypoint reaches them: those that take mutual TLS for its sake take it.
func WaypointEndpoints(list []Endpoint) []Endpoint {
	list = slices.Clone(list)
	for i := range list {
		list[i].Proxied = list[i].Proxied || list[i].Fronted
	}
	return list
}

// AuthorizingFront gives the AuthorizationPolicies that count at a waypoint for what it stands before, in order: those for the waypoint, and those that target
// the Service, or the entries that register the host.
func (s *Snapshot) AuthorizingFront(waypoint Ref, svc *Service) authz.Set {
	out := s.AuthorizingPods(waypoint)
	for _, p := range s.authorizing[svc.Namespace] {
		if p.Targeted && svc.targetedBy(p.Workloads) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, (*authz.Policy).Compare)
	return out
}

// targetedBy says whether a policy of its namespace targets the Service, or an entry that registers the host.
func (s *Service) targetedBy(w selection.Workloads) bool {
	if s.Source.Kind == config.KindService {
		return slices.Contains(w.Services, s.Source.Name)
	}
	return slices.ContainsFunc(w.Entries, func(name string) bool {
		return s.registeredBy(config.Key{Kind: config.KindServiceEntry, Namespace: s.Namespace, Name: name})
	})
}

// AuthorizingPods gives those that count at a waypoint for pods' own addresses, in order: those for the waypoint.
func (s *Snapshot) AuthorizingPods(waypoint Ref) authz.Set {
	return forWaypoint(s, s.authorizing, waypoint, func(p *authz.Policy) selection.Workloads { return p.Workloads })
}

// VerifyingFront gives the RequestAuthentications that are for a waypoint, in order.
func (s *Snapshot) VerifyingFront(waypoint Ref) tokens.Set {
	return forWaypoint(s, s.verifying, waypoint, func(a *tokens.Authentication) selection.Workloads { return a.Workloads })
}

// forWaypoint are the policies that target a waypoint's Gateway, or, in the root namespace, its class: in order.
func forWaypoint[S ~[]T, T any](s *Snapshot, all map[string]S, waypoint Ref, of func(T) selection.Workloads) (out S) {
	root, namespaces := s.Mesh.RootNamespace, []string{waypoint.Namespace}
	if root != waypoint.Namespace {
		namespaces = []string{root, waypoint.Namespace}
	}
	slices.Sort(namespaces)
	class, known := "", false
	for _, ns := range namespaces {
		for _, p := range all[ns] {
			if !known {
				class, known = s.classOf(waypoint), true
			}
			if of(p).ForWaypoint(root, waypoint.Namespace, waypoint.Name, class) {
				out = append(out, p)
			}
		}
	}
	return out
}

// targetsClasses says whether a policy of the root namespace is for the waypoints of a class.
func (s *Snapshot) targetsClasses() bool {
	root := s.Mesh.RootNamespace
	return slices.ContainsFunc(s.authorizing[root], func(p *authz.Policy) bool { return len(p.Classes) > 0 }) ||
		slices.ContainsFunc(s.verifying[root], func(a *tokens.Authentication) bool { return len(a.Classes) > 0 })
}

// classOf is the name of a Gateway's class; "" where there is no such Gateway.
func (s *Snapshot) classOf(gateway Ref) string {
	o, _ := s.gatewayAPI.Get(config.Key{Kind: config.KindKubeGateway, Namespace: gateway.Namespace, Name: gateway.Name}.String())
	return classNamed(o)
}

func classNamed(o *config.Object) string {
	if o == nil {
		return ""
	}
	spec, is := o.Spec.(*gatewayv1.GatewaySpec)
	if !is {
		return ""
	}
	return string(spec.GatewayClassName)
}
