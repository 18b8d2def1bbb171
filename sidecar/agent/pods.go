package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/spool"
	"github.com/sallyport/sallyport/sidecar/relay"
	"github.com/sallyport/sallyport/sidecar/secrets"
	"github.com/sallyport/sallyport/sidecar/tunnels"
)

// Pods is what a node's agent has beside a sidecar's (sidecar/node): what serves the pods of the node.
type Pods interface {
	Watches() []relay.Watch          // of what the controller says about them
	Register(grpc.ServiceRegistrar)  // what Envoy asks for
	Run(ctx context.Context)         // keeps them served
	Serve(ctx context.Context) error // tells those who ask, as long as no other agent of the node does
	Lacks() string                   // why pods cannot be served yet; "" when they can
	Leave()                          // the agent is told to end
	Elsewhere() bool                 // another agent of the node serves all pods
	Whose(netip.Addr) (record.Workload, bool)
	Kernel() tunnels.Kernel
	Ender() tunnels.Ender
	Status() any // of each pod in the mesh, for people
}

// PodParts is what the agent has for them.
type PodParts struct {
	Log          *slog.Logger
	Certificates *secrets.Pods
	Settled      func() bool                                    // Envoy has all that the controller says, but for listeners; the same of DNS
	Warming      func(context.Context) bool                     // Envoy has listeners that do not listen yet, or does not say
	HandIn       func(ctx context.Context, folder string) error // the audit records that another agent left in its run directory
	// DNS answers questions on sockets that were opened in a pod, which are all taken for its own, until the function that it gives is called.
	DNS func(pod record.Workload, packets net.PacketConn, streams net.Listener) (end func(), err error)
}

func (a *agent) openPods() (err error) {
	if !a.cfg.node() {
		return nil
	}
	a.certificates = secrets.NewPods(a.identity, a.conn)
	a.closers = append(a.closers, func() error { a.certificates.Close(); return nil })
	a.pods, err = a.cfg.Pods(PodParts{
		Log: a.cfg.Log, Certificates: a.certificates, Warming: a.warming, HandIn: a.handIn,
		Settled: func() bool { return a.relay.Settled() && a.dns.Names().Ready() },
		DNS: func(pod record.Workload, p net.PacketConn, l net.Listener) (func(), error) {
			return a.dns.Open(appView, askerOf(pod), p, l)
		},
	})
	return err
}

// What Envoy says of its listeners: how many it has taken that wait for something before they are opened, and whether it takes connections at all.
const (
	warmingStat = "listener_manager.total_listeners_warming"
	startedStat = "listener_manager.workers_started"
)

// warming says whether Envoy has listeners that do not listen yet, or does not say.
func (a *agent) warming(ctx context.Context) bool {
	started, err := readStat(ctx, http.DefaultClient, a.cfg.admin(), startedStat)
	if err != nil || started == 0 {
		return true
	}
	n, err := readStat(ctx, http.DefaultClient, a.cfg.admin(), warmingStat)
	return err != nil || n > 0
}

// handIn hands the audit records in that an agent left in its spool which does not run any more.
func (a *agent) handIn(ctx context.Context, folder string) error {
	left, err := spool.Open(spoolIn(folder), spool.Limits{MaxBytes: a.cfg.SpoolBytes, Logger: a.cfg.Log, Origin: a.cfg.origin()})
	if err != nil {
		return err
	}
	shipping, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = ingest.Ship(shipping, a.conn, left, a.cfg.Log) }()
	err = left.Drain(ctx)
	stop()
	<-done
	return errors.Join(err, left.Close())
}

// spoolIn is the spool of a run directory.
func spoolIn(runDir string) string { return filepath.Join(runDir, "spool") }

// servePods keeps pods served, and answers who asks about them, until ctx ends.
func (a *agent) servePods(ctx context.Context, group *errgroup.Group) {
	if a.pods == nil {
		return
	}
	group.Go(func() error { a.pods.Run(ctx); return nil })
	group.Go(func() error { return a.pods.Serve(ctx) })
}

// elsewhere says whether another agent takes what is new from now on.
func (a *agent) elsewhere() bool { return a.pods != nil && a.pods.Elsewhere() }
