package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/workload"
	"github.com/sallyport/sallyport/xds/serve"
	"github.com/sallyport/sallyport/xds/translate"
)

// ownNode lets a caller have the configuration of its own namespace's proxies only; in a cluster, of its own pods.
func (p *plane) ownNode(ctx context.Context, n translate.Node) (translate.Node, error) {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return n, status.Error(codes.Unauthenticated, "xds: nobody was authenticated")
	}
	if id.Namespace != n.Namespace {
		return n, status.Errorf(codes.PermissionDenied, "xds: %s may not be the node %q: its namespace is %q", id, n.ID, id.Namespace)
	}
	n.Account = id.ServiceAccount
	if n.IsAmbient() {
		on, err := p.nodeOf(id, n.ID)
		n.On, n.Forward = on, ""
		return n, err
	}
	if n.Machine != nil {
		return p.ownMachine(ctx, id, n)
	}
	if p.cluster == nil {
		return n, p.ownRole(id, n)
	}
	pod, err := workload.Bind(id, identity.PodFromContext(ctx), workload.Node{ID: n.ID, Namespace: n.Namespace}, p.known)
	if err != nil {
		return n, err
	}
	n.Labels, n.Host = pod.Labels, p.known.nodeOf(pod.Namespace, pod.Name)
	n.IPv6 = n.IPv6 && pod.IPv6()
	n.Forward = "" // a proxy that decides for others than its pod is not for clusters
	return n, nil
}

// ownRole is ownNode without a cluster, where nobody knows pods better than they do themselves. But it takes an account
// that stands behind a gateway to be a gateway: what a node id claims makes none.
func (p *plane) ownRole(id identity.ID, n translate.Node) error {
	if err := workload.CheckID(n.ID); err != nil {
		return status.Errorf(codes.InvalidArgument, "xds: node id %q: %v", n.ID, err)
	}
	if n.IsWaypoint() {
		return p.ownWaypoint(id, n)
	}
	if !n.IsRouter() || n.Forward != "" { // a forward proxy has what its own namespace has
		return nil
	}
	s := p.snapshot.Load()
	if slices.ContainsFunc(slices.Concat(s.ExitsIn(id.Namespace), s.SharedExitsIn(id.Namespace), s.IngressesIn(id.Namespace)), func(g registry.Ref) bool { return standsBehind(s, g, id.ServiceAccount) }) {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "xds: %s may not be the gateway %q: no gateway's Service in namespace %q has a pod with the service account %q; write the Service (of an ingress gateway, a Gateway that selects its pods, too), and a Pod or WorkloadEntry with that account", id, n.ID, id.Namespace, id.ServiceAccount)
}

// ownWaypoint is ownRole of waypoints.
func (p *plane) ownWaypoint(id identity.ID, n translate.Node) error {
	s := p.snapshot.Load()
	ref := s.WaypointOf(id.Namespace, n.Labels)
	if !ref.IsZero() && (id.ServiceAccount == ref.Name || standsBehind(s, ref, id.ServiceAccount)) {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "xds: %s may not be the waypoint %q: it takes the label %s with the name of a Gateway of namespace %q that is a waypoint, and that name for a service account, or a Pod with the account that the Gateway's Service selects",
		id, n.ID, gatewayapi.GatewayLabel, id.Namespace)
}

// ownRecord stamps who reported: a proxy speaks for its own workload only. Only shared gateways are believed about others,
// whose certificates they verified; what another one says of them is kept beside, as its claim.
func (p *plane) ownRecord(ctx context.Context, r *record.Record) error {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return status.Error(codes.Unauthenticated, "audit: nobody was authenticated")
	}
	if ns := serve.NamespaceOf(r.Proxy); ns != id.Namespace {
		return fmt.Errorf("%s may not report as the proxy %q", id, r.Proxy)
	}
	of := identity.PodFromContext(ctx)
	var pod *workload.Pod // nil without a cluster, and when it is gone as its last records come
	if p.cluster != nil {
		by := of
		if p.handsIn(id, of, r.Proxy) {
			by = identity.Pod{}
		}
		var unknown *workload.Unknown
		switch known, err := workload.Bind(id, by, workload.Node{ID: r.Proxy}, p.known); {
		case err == nil:
			pod = &known
		case !errors.As(err, &unknown):
			return err
		}
	}
	to := r.DestinationWorkload
	p.verified(r, id.Namespace, pod)
	r.Claim, r.Workload.Labels, r.DestinationWorkload = "", "", record.Workload{} // of these no proxy's word counts
	if p.stampOfPod(r, id, of, to) {
		return nil
	}
	if r.Reporter == record.ReporterDestination {
		r.DestinationWorkload.Name = to.Name
		p.stampDestination(r, id, pod)
		return nil
	}
	p.stamp(r, id, pod)
	if p.cluster != nil {
		p.enrich(r, id)
	}
	return nil
}

// stampDestination makes a record one of what came to its reporter's own workload. Whom that saw come is its claim.
func (p *plane) stampDestination(r *record.Record, id identity.ID, pod *workload.Pod) {
	r.Claim, r.Direction = r.Workload.Principal, record.Lateral
	r.DestinationWorkload = record.Workload{Principal: id.String(), Namespace: id.Namespace, ServiceAccount: id.ServiceAccount, Name: r.DestinationWorkload.Name}
	r.Workload = record.Workload{}
	var labels map[string]string
	if pod != nil {
		r.DestinationWorkload.Name, labels = pod.Name, pod.Labels
		label(r, &r.DestinationWorkload, "destinationWorkload.labels", labels)
	}
	if r.Verdict == record.Denied && r.DecidedBy.IsZero() {
		p.authenticated(r, labels)
	}
}

// verified says which RequestAuthentication asks for a good token of the request whose token was none, where one alone does for the proxy.
func (p *plane) verified(r *record.Record, ns string, pod *workload.Pod) {
	if r.DecidedBy != (record.Object{Kind: record.RequestAuthentication}) {
		return
	}
	var labels map[string]string
	if pod != nil {
		labels = pod.Labels
	}
	if list := p.snapshot.Load().Verifying(ns, labels); len(list) == 1 {
		r.DecidedBy.Namespace, r.DecidedBy.Name = list[0].Key.Namespace, list[0].Key.Name
	}
}

// authenticated says which PeerAuthentication asks for the TLS that was not there, as far as the pod's labels are known.
func (p *plane) authenticated(r *record.Record, labels map[string]string) {
	at, err := netip.ParseAddrPort(r.Dialled)
	if err != nil {
		return
	}
	mode, by := p.snapshot.Load().Modes(r.DestinationWorkload.Namespace, labels).At(uint32(at.Port()))
	if mode == registry.Strict {
		r.DecidedBy = record.Object{Kind: string(by.Kind), Namespace: by.Namespace, Name: by.Name}
	}
}

// stamp makes a record one of its reporter's own workload, unless the reporter is believed about others.
func (p *plane) stamp(r *record.Record, id identity.ID, pod *workload.Pod) {
	if r.Reporter == record.ReporterGateway {
		if p.speaksForOthers(id, pod) {
			return
		}
		if r.Workload.Principal != id.String() {
			r.Claim = r.Workload.Principal
		}
	}
	r.Workload = record.Workload{Principal: id.String(), Namespace: id.Namespace, ServiceAccount: id.ServiceAccount, Name: r.Workload.Name}
	switch {
	case pod != nil:
		r.Workload.Name = pod.Name
		label(r, &r.Workload, "workload.labels", pod.Labels)
	case r.Reporter == record.ReporterGateway:
		r.Workload.Name = ""
	case p.cluster != nil:
		if gone := p.known.goneAs(r.Workload.Name, id); gone != nil {
			label(r, &r.Workload, "workload.labels", gone.Labels)
		}
	}
}

// speaksForOthers says whether what a caller reports of others is believed. The mesh's settings or the root namespace's
// objects have to name its gateway, for whoever may write an entry and a Service could name one of its own. In a cluster
// it has to be a pod that the gateway's Service selects; when the pod is gone, and without a cluster, of the account that
// stands behind it.
func (p *plane) speaksForOthers(id identity.ID, pod *workload.Pod) bool {
	s := p.snapshot.Load()
	gateways := s.SharedExitsIn(id.Namespace)
	if pod != nil {
		return slices.ContainsFunc(s.GatewaysOf(id.Namespace, pod.Labels), func(k *registry.KubeService) bool { return slices.Contains(gateways, k.Ref) })
	}
	return slices.ContainsFunc(gateways, func(g registry.Ref) bool { return standsBehind(s, g, id.ServiceAccount) })
}

// standsBehind says whether a gateway has endpoints with that account. Where nobody says which accounts its endpoints
// have, it is the one that Istio's installation gives them: the Service's name, or that and "-service-account".
func standsBehind(s *registry.Snapshot, service registry.Ref, account string) bool {
	said := false
	for _, svc := range s.Services(service.Host()) {
		for _, e := range s.EndpointsOf(svc) {
			if e.Cluster != "" || svc.External || svc.Namespace != service.Namespace || e.ServiceAccount == "" {
				continue
			}
			if e.ServiceAccount == account {
				return true
			}
			said = true
		}
	}
	return !said && (account == service.Name || account == service.Name+"-service-account")
}
