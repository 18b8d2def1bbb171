package agent

import (
	"context"
	"log/slog"
	"net"
	"net/netip"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/relay"
	"github.com/sallyport/sallyport/sidecar/secrets"
)

// Pods is what a node's agent has beside a sidecar's (sidecar/node): what serves the pods of the node.
type Pods interface {
	Watches() []relay.Watch                                           // of what the controller says about them
	Register(grpc.ServiceRegistrar)                                   // what Envoy asks for
	Run(ctx context.Context)                                          // keeps them served
	Serve(ctx context.Context, runDir string, log *slog.Logger) error // tells those who ask
	Lacks() string                                                    // why pods cannot be served yet; "" when they can
	Whose(netip.Addr) (record.Workload, bool)
	Status() any // of each pod in the mesh, for people
}

// PodParts is what the agent has for them.
type PodParts struct {
	Log          *slog.Logger
	Folder       string
	Certificates *secrets.Pods
	// DNS answers questions on sockets that were opened in a pod, until the function that it gives is called.
	DNS func(net.PacketConn, net.Listener) (end func(), err error)
}

func (a *agent) openPods() (err error) {
	if !a.cfg.node() {
		return nil
	}
	a.certificates = secrets.NewPods(a.identity, a.conn)
	a.closers = append(a.closers, func() error { a.certificates.Close(); return nil })
	a.pods, err = a.cfg.Pods(PodParts{
		Log: a.cfg.Log, Folder: a.cfg.path("node"), Certificates: a.certificates,
		DNS: func(p net.PacketConn, l net.Listener) (func(), error) { return a.dns.Open(appView, p, l) },
	})
	if err == nil {
		a.refusals.whose = a.pods.Whose
	}
	return err
}

// servePods keeps pods served, and answers who asks about them, until ctx ends.
func (a *agent) servePods(ctx context.Context, group *errgroup.Group) {
	if a.pods == nil {
		return
	}
	group.Go(func() error { a.pods.Run(ctx); return nil })
	group.Go(func() error { return a.pods.Serve(ctx, a.cfg.RunDir, a.cfg.Log) })
}
