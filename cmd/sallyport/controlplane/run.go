package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/keys"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/tokens"
	"github.com/sallyport/sallyport/xds/serve"
)

// Run serves until ctx ends, or until something that cannot be done without fails.
func Run(ctx context.Context, cfg Config) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	p, err := newPlane(ctx, cfg)
	if err != nil {
		return err
	}
	return p.run(ctx, p.snapshot.Load().Mesh.TrustDomain)
}

// newPlane reads the mesh settings and makes a plane that serves nothing else yet. What becomes of the settings is
// watched from before they are read, until ctx ends.
func newPlane(ctx context.Context, cfg Config) (*plane, error) {
	watched, watchErr := watchFile(ctx, cfg.MeshConfigFile, cfg.Log)
	settings, err := loadMesh(cfg.MeshConfigFile)
	if err != nil {
		return nil, WrongSetting{err}
	}
	if watchErr != nil {
		return nil, fmt.Errorf("--mesh-config %q: changes of it would not be seen: %w", cfg.MeshConfigFile, watchErr)
	}
	if cfg.XDSAddr != "" {
		if err := loopbackOnly("--xds-addr", cfg.XDSAddr); err != nil {
			return nil, WrongSetting{err}
		}
	}
	if err := os.MkdirAll(cfg.DataDir, 0o755); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg := registry.New(&settings)
	reg.SetControlPlane(cfg.service(), OwnAddresses())
	p := &plane{
		cfg: cfg, log: cfg.Log, metrics: metrics, registry: reg,
		cache: serve.NewCache(reg.Snapshot()), xds: serve.NewMetrics(metrics), ready: make(chan struct{}),
		settings: watched, known: newInventory(), keys: keys.NewFetcher(cfg.Log, tokens.ReadKeys),
		proposals: make(chan proposal),
	}
	p.nodes = newNodes(func() string { return p.snapshot.Load().Mesh.RootNamespace })
	if p.machines, err = p.keepMachines(); err != nil {
		return nil, fmt.Errorf("machines that join: %w", err)
	}
	p.snapshot.Store(reg.Snapshot())
	p.cache.GiveBackBy(giveMemoryBack)
	p.cache.FollowPods(p.podsOn)
	p.cache.FollowProbes(p.machines.Probe)
	p.keys.Folder = filepath.Join(cfg.DataDir, "token-keys")
	metrics.MustRegister(policyEnds(p.snapshot.Load), keyFailures(p.failing))
	p.sayIgnored(&settings)
	return p, nil
}

// gcPercent is how much garbage may gather, in percent of what lives. Most of what a control plane holds stays as it
// is, and a change makes little garbage: collecting twice as often as usual costs next to nothing.
const gcPercent = 50

func loadMesh(file string) (mesh.Config, error) {
	if file == "" {
		return mesh.Default(), nil
	}
	return mesh.Load(file)
}

func (p *plane) run(ctx context.Context, trustDomain string) (err error) {
	if p.cfg.Cluster != nil {
		if p.cluster, err = p.join(ctx, trustDomain); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	secure, err := p.secureServer(ctx, trustDomain)
	if err != nil {
		return err
	}
	ports, err := p.open()
	if err != nil {
		return err
	}
	// Proxies and the API server are answered once the configuration was read: before that, everything would seem to
	// be gone.
	once := func(serve func() error) {
		g.Go(func() error {
			select {
			case <-p.ready:
			case <-ctx.Done():
				ports.close()
			}
			return serve()
		})
	}
	g.Go(func() error { return p.configure(ctx) })
	once(func() error { return serveGRPC(ctx, secure.server, ports.secure) })
	if ports.xds != nil {
		once(func() error { return serveGRPC(ctx, p.plainServer(ctx), ports.xds) })
	}
	if ports.admin != nil {
		g.Go(func() error { return p.serveAdmin(ctx, ports.admin) })
	}
	if p.cluster == nil {
		g.Go(func() error {
			select {
			case <-p.ready:
				p.serveExplain(ctx)
			case <-ctx.Done():
			}
			return nil
		})
	}
	if ports.health != nil {
		g.Go(func() error { return serveStrangers(ctx, ports.health, p.health()) })
	}
	if p.cluster != nil {
		g.Go(func() error { return p.cluster.lead(ctx, p) })
		if ports.webhooks != nil {
			once(func() error { return p.cluster.serveWebhooks(ctx, p, ports.webhooks) })
		}
	}
	for _, job := range secure.jobs {
		g.Go(func() error { job(ctx); return nil })
	}
	if p.cfg.Listening != nil {
		p.cfg.Listening(ports.addresses())
	}
	return g.Wait()
}
