package controlplane

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/keys"
	"github.com/sallyport/sallyport/config/source/kube/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/tokens"
	"github.com/sallyport/sallyport/xds/serve"
	"github.com/sallyport/sallyport/xds/translate"
)

// plane is a running control plane.
type plane struct {
	cfg      Config
	log      *slog.Logger
	metrics  *prometheus.Registry
	registry *registry.Registry // of the goroutine in configure
	snapshot atomic.Pointer[registry.Snapshot]
	cache    *serve.Cache
	xds      *serve.Metrics
	settings <-chan struct{} // the mesh settings were written

	ready        chan struct{} // closed after the first batch
	readyOnce    sync.Once
	known        *inventory
	nodes        *nodes
	podListeners translate.PodListeners // of pods without sidecars that something is about
	cluster      *cluster               // nil without one
	policies     policyNotes
	keys         *keys.Fetcher
	machines     joining
	// keysFailing is which of them cannot be fetched.
	keysFailing atomic.Pointer[map[config.Key]keys.Failure]
	proposals   chan proposal
	foresight   *foresight // nil without a log, or without a cluster
}

// configure is the one writer: it takes the source's batches and new mesh settings, in turn, and publishes what
// comes of them.
func (p *plane) configure(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	batches, failed := make(chan []config.Change), make(chan error, 1)
	go func() {
		failed <- p.cfg.Source.Run(ctx, func(c []config.Change, _ []admission.Finding) {
			select {
			case batches <- c:
			case <-ctx.Done():
			}
		})
	}()
	go p.keys.Run(ctx)
	first := true
	for {
		select {
		case <-ctx.Done():
			<-failed // the source ends with ctx
			return nil
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case changes := <-batches:
			if changed := p.apply(changes); first || len(changed.Authorization) > 0 {
				p.wantKeys(ctx)
			}
			if first {
				p.beginMachines(ctx)
			}
			first = false
		case changes := <-p.machines.batches():
			p.apply(changes)
		case fetched := <-p.keys.Batches():
			if len(fetched.Changes) > 0 {
				p.apply(fetched.Changes)
			}
			p.noteFailing(fetched.Failing)
			if fetched.Tried { // proxies that have keys are to be given none that nobody has asked for
				p.readyOnce.Do(func() {
					close(p.ready)
					giveMemoryBack() // reading everything left as much garbage as there will ever be
				})
			}
		case <-p.settings:
			p.reloadMesh()
			p.wantKeys(ctx)
		case q := <-p.proposals:
			q.put(p.registry)
		}
	}
}

// wantKeys says which keys are wanted for tokens. The first time, there is an answer once each was tried.
func (p *plane) wantKeys(ctx context.Context) {
	s := p.snapshot.Load()
	var all []keys.Wanted
	for key, from := range s.WantedKeys() {
		refused := ""
		if from.Beyond {
			refused = fmt.Sprintf("namespace %s wants more than %d sets of keys, and this is none of the first", key.Namespace, tokens.MostSets)
		}
		all = append(all, keys.Wanted{
			Source:  keys.Source{Key: key, URI: from.URI, Discover: from.Discover, Timeout: from.Timeout},
			Allowed: s.Mesh.DNS.PrivateFor(key.Namespace),
			Refused: refused,
		})
	}
	p.keys.Want(ctx, all)
}

func (p *plane) apply(changes []config.Change) registry.Changed {
	var relabelled map[string]map[string]string
	own := ownCluster(changes) // who anybody is that connects is said by no other cluster
	if p.cluster != nil {
		relabelled = p.known.apply(own) // before proxies learn of it: what a pod is decides what it gets
	}
	p.machines.Apply(own)
	moved := p.nodes.apply(own)
	for _, c := range own {
		if c.Key.Kind == config.KindPod && c.Object == nil {
			p.podListeners.Forget(c.Key.Namespace + "/" + c.Key.Name)
		}
	}
	s, changed := p.registry.Apply(changes)
	p.publish(s, changed)
	p.cache.PodsChanged(moved)
	p.cache.Relabel(relabelled)
	p.cache.GroupsChanged(groupsIn(own))
	if p.cluster != nil {
		p.updateStatuses(func() map[config.Key]status.Details { return p.details(s, own, changed) })
	}
	return changed
}

// ownCluster are the changes in the own cluster.
func ownCluster(changes []config.Change) []config.Change {
	other := func(c config.Change) bool { return c.Key.Cluster != "" }
	if !slices.ContainsFunc(changes, other) {
		return changes
	}
	return slices.DeleteFunc(slices.Clone(changes), other)
}

func (p *plane) publish(s *registry.Snapshot, changed registry.Changed) {
	if changed.Empty() {
		return
	}
	began := time.Now()
	p.snapshot.Store(s)
	p.cache.Publish(s, changed)
	p.log.Info("configuration published", "hosts", len(changed.Hosts), "mesh", changed.Mesh,
		"total", s.Len(), "took", time.Since(began).Round(time.Microsecond).String())
}

// reloadMesh takes new mesh settings over; a file that is wrong leaves the old ones.
func (p *plane) reloadMesh() {
	cfg, err := loadMesh(p.cfg.MeshConfigFile)
	if err != nil {
		p.log.Error("the mesh settings stay as they were", "file", p.cfg.MeshConfigFile, "error", err)
		return
	}
	old := p.snapshot.Load().Mesh
	if cfg.TrustDomain != old.TrustDomain {
		p.log.Error("trustDomain changes with a restart only", "now", old.TrustDomain, "file", cfg.TrustDomain)
		cfg.TrustDomain = old.TrustDomain
	}
	if reflect.DeepEqual(&cfg, old) {
		return // another file of its folder was written
	}
	if cfg.Audit != old.Audit {
		p.log.Warn("sallyport.audit.retention changes with a restart of the audit server only", "file", p.cfg.MeshConfigFile)
	}
	p.sayIgnored(&cfg)
	next, changed := p.registry.SetMesh(&cfg)
	p.publish(next, changed)
	if p.cluster != nil {
		p.updateStatuses(func() map[config.Key]status.Details { return p.details(next, nil, changed) })
	}
}

// sayIgnored logs what the mesh settings have and is not applied.
func (p *plane) sayIgnored(cfg *mesh.Config) {
	for _, x := range cfg.Ignored {
		p.log.Warn("a mesh setting is not applied", "file", p.cfg.MeshConfigFile, "setting", x.Error())
	}
}

// settle is how long a file must rest before it is read again: editors write in several steps.
const settle = 100 * time.Millisecond

// watchFile tells when a file was written, replaced or came back. Its folder is what is watched, since replacing
// a file is how it is usually written.
func watchFile(ctx context.Context, file string, log *slog.Logger) (<-chan struct{}, error) {
	out := make(chan struct{})
	if file == "" {
		return out, nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(filepath.Dir(file)); err != nil {
		_ = w.Close()
		return nil, err
	}
	go func() {
		defer func() { _ = w.Close() }()
		var rested <-chan time.Time
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.Events: // also for ..data, the link that a mounted ConfigMap swaps
				rested = time.After(settle)
			case err := <-w.Errors:
				log.Warn("changes of a file may go unseen", "file", file, "error", err)
			case <-rested:
				rested = nil
				select {
				case out <- struct{}{}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out, nil
}
