package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/egress/audit/record"
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
	if p.cluster == nil {
		return n, nil // nobody knows pods better than they do themselves
	}
	pod, err := workload.Bind(id, identity.PodFromContext(ctx), workload.Node{ID: n.ID, Namespace: n.Namespace}, p.known)
	if err != nil {
		return n, err
	}
	n.Labels = pod.Labels
	n.IPv6 = n.IPv6 && pod.IPv6()
	n.Forward = "" // a proxy that decides for others than its pod is not for clusters
	return n, nil
}

// ownRecord stamps who reported: a sidecar speaks for its own workload only, and only gateways may speak for others,
// whose certificates they verified.
func (p *plane) ownRecord(ctx context.Context, r *record.Record) error {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return status.Error(codes.Unauthenticated, "audit: nobody was authenticated")
	}
	if ns := serve.NamespaceOf(r.Proxy); ns != id.Namespace {
		return fmt.Errorf("%s may not report as the proxy %q", id, r.Proxy)
	}
	var pod *workload.Pod // nil without a cluster, and when it is gone as its last records come
	if p.cluster != nil {
		var unknown *workload.Unknown
		switch known, err := workload.Bind(id, identity.PodFromContext(ctx), workload.Node{ID: r.Proxy}, p.known); {
		case err == nil:
			pod = &known
		case !errors.As(err, &unknown):
			return err
		}
	}
	if r.Reporter == record.ReporterGateway {
		if !p.mayBeGateway(id, pod) {
			return fmt.Errorf("%s reports as a gateway by the proxy %q, but no egress gateway's Service in namespace %q selects it", id, r.Proxy, id.Namespace)
		}
		return nil
	}
	r.Workload.Principal, r.Workload.Namespace, r.Workload.ServiceAccount = id.String(), id.Namespace, id.ServiceAccount
	if pod != nil {
		r.Workload.Name = pod.Name
	}
	return nil
}

// mayBeGateway says whether a caller may speak for others. In a cluster it has to be a pod that an egress gateway's
// Service selects, or, when the pod is gone, of the account that the gateway's pods have. Without a cluster nothing is
// known of callers but their namespaces.
func (p *plane) mayBeGateway(id identity.ID, pod *workload.Pod) bool {
	s := p.snapshot.Load()
	gateways := s.ExitsIn(id.Namespace)
	if def := registry.Ref(s.Mesh.DefaultGateway); def.Namespace == id.Namespace {
		gateways = append(gateways, def)
	}
	switch {
	case p.cluster == nil:
		return id.Namespace == s.Mesh.RootNamespace || len(gateways) > 0
	case pod != nil:
		return slices.ContainsFunc(s.GatewaysOf(id.Namespace, pod.Labels), func(k *registry.KubeService) bool { return slices.Contains(gateways, k.Ref) })
	default:
		return slices.ContainsFunc(gateways, func(g registry.Ref) bool { return standsBehind(s, g, id.ServiceAccount) })
	}
}

// standsBehind says whether a service has endpoints with that account.
func standsBehind(s *registry.Snapshot, service registry.Ref, account string) bool {
	for _, svc := range s.Services(service.Host()) {
		if !svc.External && slices.ContainsFunc(svc.Endpoints, func(e registry.Endpoint) bool { return e.ServiceAccount == account }) {
			return true
		}
	}
	return false
}
