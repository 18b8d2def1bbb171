package resolve

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// FrontedPod is a pod's own address as nodes reach it, which has a waypoint.
type FrontedPod struct {
	Pod     config.Key
	Address netip.Addr
	Gateway registry.Ref
	Closed  *registry.ClosedPort // why nothing goes there; nil where it goes by the waypoint
}

// PodFronted is that of an address; false where no waypoint stands before it.
func (a Sidecar) PodFronted(address netip.Addr) (FrontedPod, bool) {
	p, there := a.snap.PodAt(address)
	if !there {
		return FrontedPod{}, false
	}
	use, has := a.snap.PodWaypoint(p)
	if !has {
		return FrontedPod{}, false
	}
	out := FrontedPod{Pod: p.Pod, Address: p.Address, Gateway: use.Gateway}
	why, fix := use.Missing, "see the status of the Gateway, or remove the label from the pod or its namespace"
	if why == "" && !takesMutual(a.snap, p) {
		why, fix = "waypoints speak mutual TLS to pods' own addresses, and the pod takes none at some port", "let PeerAuthentications say PERMISSIVE or STRICT for the pod, or give it the label istio.io/use-waypoint: none"
	}
	if front := a.FrontOf(use.Gateway); why == "" && len(front.Endpoints) == 0 {
		why = "the waypoint has no pod that is ready"
	}
	if why != "" {
		out.Closed = &registry.ClosedPort{By: p.Pod, Why: "label istio.io/use-waypoint: " + use.Gateway.String() + ": " + why, Fix: fix}
	}
	return out, true
}

// Address is what the workload connects to for a destination, as far as it is known.
func (a Sidecar) Address(d Destination) netip.Addr {
	_, ip, _ := a.address(d)
	return ip.Unmap()
}

// takesMutual says whether a pod takes mutual TLS at all of its ports.
func takesMutual(s *registry.Snapshot, p *registry.FrontedPod) bool {
	modes := s.Modes(p.Pod.Namespace, p.Labels)
	for _, m := range modes.Ports {
		if m == registry.Disable {
			return false
		}
	}
	return s.Mesh.MutualTLS && modes.Default != registry.Disable
}

// FrontOf is a waypoint as it is reached, whatever it is for.
func (a Sidecar) FrontOf(gateway registry.Ref) WaypointHop {
	return *waypointHop(a.snap, a.near, registry.WaypointUse{Gateway: gateway})
}

// AskedByPod is the pod with an address that asks for the waypoint, and may; and whether it stands before that address now, which is also for the waypoint, and others, to say.
func (w WaypointProxy) AskedByPod(address netip.Addr) (pod config.Key, before, asked bool) {
	p, there := w.snap.PodAt(address)
	if !there || p.Waypoint != w.gateway || w.snap.AskedWaypoint(p).Missing != "" {
		return config.Key{}, false, false
	}
	return p.Pod, !w.snap.LeavesPods(w.gateway) && takesMutual(w.snap, p) && !slices.Contains(w.Refused(), p.Address), true
}

// frontedPodsOf are those of a headless Service's pods that have a waypoint before their own addresses, which is what clients of the Service connect to.
func (a Sidecar) frontedPodsOf(svc *registry.Service) (out []FrontedPod) {
	if !a.node || !svc.Headless() {
		return nil
	}
	for _, p := range svc.Addresses {
		if pod, fronted := a.PodFronted(p.Addr()); fronted && p.IsSingleIP() {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(x, y FrontedPod) int { return x.Address.Compare(y.Address) })
	return out
}
