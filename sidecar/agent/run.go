package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/egress/audit/ingest"
)

// shipRest is how long the last audit records may take on their way out. What does not make it stays in the spool.
const shipRest = 3 * time.Second

// Run starts the proxy and keeps it running until ctx ends. Errors that wrap ErrConfig are the caller's.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	a, err := open(cfg)
	if err != nil {
		return err
	}
	a.quit = quit
	a.leaving = func() bool { return ctx.Err() != nil }
	return errors.Join(a.run(ctx), a.close())
}

// run is Envoy's life, with the services around it living longer.
func (a *agent) run(ctx context.Context) error {
	services, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, services := errgroup.WithContext(services)
	a.serve(services, group)

	unserved := context.AfterFunc(services, a.quit) // one that fails takes Envoy with it
	defer unserved()
	if a.pods != nil {
		left := context.AfterFunc(ctx, a.pods.Leave)
		defer left()
	}
	ended := a.envoy.Run(ctx)
	if services.Err() == nil {
		a.shipTheRest(services)
	}
	stop()
	a.server.Stop()
	return errors.Join(ended, group.Wait())
}

// serve starts the services. They end with ctx.
func (a *agent) serve(ctx context.Context, group *errgroup.Group) {
	a.served = true
	group.Go(func() error { return a.relay.Run(ctx) })
	group.Go(func() error {
		if err := a.server.Serve(a.socket); err != nil && ctx.Err() == nil {
			return fmt.Errorf("agent socket: %w", err)
		}
		return nil
	})
	group.Go(func() error { return a.dns.Serve(ctx) })
	group.Go(func() error { a.refusals.run(ctx); return nil })
	group.Go(func() error { return a.status.Run(ctx) })
	group.Go(func() error {
		if err := ingest.Ship(ctx, a.conn, a.spool, a.cfg.Log); err != nil && ctx.Err() == nil {
			return fmt.Errorf("shipping audit records: %w", err)
		}
		return nil
	})
	if a.identity != nil {
		group.Go(func() error { a.identity.Run(ctx, a.conn); return nil })
	}
	a.servePods(ctx, group)
	group.Go(func() error { giveMemoryBack(ctx); return nil })
	group.Go(func() error { a.drops.run(ctx); return nil })
	group.Go(func() error { a.full.run(ctx); return nil })
	if a.prober != nil {
		group.Go(func() error { a.prober.Run(ctx); return nil })
	}
	group.Go(func() error { a.tunnels.Run(ctx); return nil })
	group.Go(func() error { a.tunnels.RunHalf(ctx); return nil })
	if a.router() {
		group.Go(func() error { a.tunnels.RunSilent(ctx, a.lostEntries()); return nil })
	}
}

// shipTheRest waits for the records of Envoy's last moments.
func (a *agent) shipTheRest(ctx context.Context) {
	if !a.relay.Connected() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, shipRest)
	defer cancel()
	if err := a.spool.Drain(ctx); err != nil {
		a.cfg.Log.Warn("audit records stay in the spool until the agent runs again", "err", err)
	}
}
