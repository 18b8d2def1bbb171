package policy

import (
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/wire"
)

// toPod goes on with what a workload without a sidecar may send to the own address of a pod, where that has a waypoint: policies for the waypoint are asked, and then the pod,
// which sees the waypoint. What else is passed on is as it was.
func (a asking) toPod(v Verdict, d Destination, shown resolve.Attempt) Verdict {
	front, fronted := a.PodFronted(a.Address(d))
	if !fronted {
		return v
	}
	return a.byWaypointOf(v, front, d.Port, shown)
}

// toPodOf says what becomes of what is sent to a pod of a headless Service that has a waypoint before its own address; false where it has none.
func (a asking) toPodOf(host resolve.SidecarHost, port registry.Port, d Destination, shown resolve.Attempt) (v Verdict, fronted bool) {
	address := a.Address(d)
	for _, front := range host.FrontedPods {
		if front.Address == address {
			v = Verdict{Service: host.Service, DecidedBy: Object{host.Service.SourceOf(port), "hosts: " + host.Service.Host}, Allowed: true}
			return a.byWaypointOf(v, front, d.Port, shown), true
		}
	}
	return v, false
}

// byWaypointOf is the verdict of what goes by the waypoint before a pod's own address.
func (a asking) byWaypointOf(v Verdict, front resolve.FrontedPod, port uint32, shown resolve.Attempt) Verdict {
	v.Path, v.Cluster, v.Waypoint, v.Missing = PathDirect, wire.PodsWaypoint(front.Gateway.Host()), front.Gateway, false
	if front.Closed != nil {
		v.Allowed, v.DecidedBy = false, Object{Key: front.Pod}
		v.Path, v.Cluster, v.Reason = PathBlackhole, wire.BlackHoleCluster, front.Closed.String()
		return v
	}
	v.Reason = "a pod's own address, by the waypoint " + front.Gateway.String()
	read := shown.Kind == resolve.Requests
	if set := a.snap.AuthorizingPods(front.Gateway); len(set) > 0 {
		what := &authz.Attempt{
			Domains: a.snap.Mesh.TrustDomains(), Client: ClientOf(a.snap, a.workload.Namespace, a.account()), From: a.workload.Address, Remote: a.workload.Address,
			Authority: shown.Request.Authority, Port: port, SNI: wire.PodName(netip.AddrPortFrom(front.Address, uint16(port)).String(), read),
		}
		if read {
			what.Request = requestAsked(egresspolicy.HTTP, shown.Request)
		}
		cluster := v.Cluster
		v = v.judge(a.snap, set, what)
		v.Cluster = cluster // which the client's node has, whatever is said there
	}
	if !v.Allowed {
		return v
	}
	return a.intoPod(v, front, port, shown)
}

// intoPod asks the pod itself about the waypoint.
func (a asking) intoPod(v Verdict, front resolve.FrontedPod, port uint32, shown resolve.Attempt) Verdict {
	by := a.asWaypoint(resolve.WaypointOf(a.snap, front.Gateway), new(a.FrontOf(front.Gateway)))
	p, _ := a.snap.PodAt(front.Address)
	there := DecideInbound(a.snap, InboundAttempt{
		Pod:  Workload{Namespace: front.Pod.Namespace, Name: front.Pod.Name, Account: p.Account, Labels: p.Labels, Address: front.Address},
		Port: port, Node: true, Mutual: true, Client: ClientOf(a.snap, by.workload.Namespace, by.account()), SNI: wire.PodsSNI, From: by.workload.Address,
		Kind: shown.Kind, Request: shown.Request,
	})
	if !there.Allowed {
		v.Allowed, v.DecidedBy, v.Reason = false, there.DecidedBy, "a pod's own address, by the waypoint "+front.Gateway.String()+"; the pod refuses it: "+strings.TrimSuffix(there.Reason, addressUnknown)
	}
	return v
}
