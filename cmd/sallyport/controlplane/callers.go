package controlplane

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/egress/audit/record"
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
	if p.cluster != nil {
		_, err := workload.Bind(id, identity.PodFromContext(ctx), workload.Node{ID: r.Proxy}, p.known)
		var unknown *workload.Unknown
		if err != nil && !errors.As(err, &unknown) { // a pod may be gone when its last records come
			return err
		}
	}
	if r.Reporter == record.ReporterGateway {
		if !p.mayBeGateway(id.Namespace) {
			return fmt.Errorf("%s reports as a gateway, but no gateway is in namespace %q", id, id.Namespace)
		}
		return nil
	}
	r.Workload.Principal, r.Workload.Namespace, r.Workload.ServiceAccount = id.String(), id.Namespace, id.ServiceAccount
	return nil
}

// mayBeGateway says whether egress gateways run in a namespace.
func (p *plane) mayBeGateway(ns string) bool {
	s := p.snapshot.Load()
	return ns == s.Mesh.RootNamespace || ns == s.Mesh.DefaultGateway.Namespace || s.HasExitIn(ns)
}
