package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/feed"
	"github.com/sallyport/sallyport/config/source/kube/clientlog"
)

// Source watches one API server.
type Source struct {
	cluster string // of another one, its name
	config  *rest.Config
	options Options
	kinds   []kind
	store   *store
	synced  chan struct{}
	retries wait.Backoff
	unnamed bool // what objects name (Secrets, ConfigMaps) is not read
}

// New makes a source that asks for nothing until it is run.
func New(config *rest.Config, o Options) *Source {
	all := kinds()
	return &Source{config: config, options: o.withDefaults(), kinds: all, store: newStore(all), synced: make(chan struct{}), retries: retries}
}

// Synced is closed once the first batch, which holds everything, was handed on.
func (s *Source) Synced() <-chan struct{} { return s.synced }

// Findings are those that hold now, about objects and about kinds that cannot be read, in order. The slice is the
// caller's.
func (s *Source) Findings() []admission.Finding { return s.store.findings() }

// Run watches, hands everything to out once all kinds are settled, and goes on with each change until ctx ends, which
// is no error. out gets the changed objects in order of their keys, and the findings that are new; it is called from
// one goroutine, also when the first batch is empty. An API server that cannot be reached is waited for. Run may be
// called once. It fails if the client's configuration cannot be used.
func (s *Source) Run(ctx context.Context, out func(batch []config.Change, findings []admission.Finding)) error {
	clients, err := newClients(s.config, s.kinds)
	if err != nil {
		return fmt.Errorf("access to the API server at %s: %w", s.config.Host, err)
	}
	clients.retries = s.retries
	defer utilnet.CloseIdleConnectionsFor(clients.http.Transport)
	ctx, cancel := context.WithCancel(ctx)
	var reflectors sync.WaitGroup
	defer reflectors.Wait()
	defer cancel()
	logged := clientlog.Context(ctx, s.options.Logger)
	for _, k := range s.kinds {
		if k.custom {
			continue
		}
		from, err := clients.listerWatcher(k, k.versions[0])
		if err != nil {
			return fmt.Errorf("reading objects of kind %s: %w", k.Kind, err)
		}
		reflectors.Go(func() { clients.reflect(logged, k, from, s.store) })
	}
	if s.cluster == "" { // of others nothing is read that a CRD makes
		reflectors.Go(func() { newAvailability(clients, s.kinds, s.store).run(logged) })
	}

	named := newCredentials(logged, clients, s.store)
	named.none = s.unnamed
	defer named.stop()
	if !s.first(ctx, named) {
		return nil
	}
	s.publish(true, out)
	close(s.synced)
	s.follow(ctx, named, out)
	return nil
}

// first waits until everything is there that the first batch is to hold. Meanwhile findings are only logged: they are
// handed on with it. It returns false when ctx ended.
func (s *Source) first(ctx context.Context, named *credentials) bool {
	var patience <-chan time.Time
	patient := true
	for {
		select {
		case <-ctx.Done():
			return false
		case <-patience:
			patient = false
		case <-s.store.wake:
		}
		named.follow()
		settled, reachable := s.store.all(patient)
		if settled {
			return true
		}
		if reachable && patience == nil {
			timer := time.NewTimer(s.options.Patience)
			defer timer.Stop()
			patience = timer.C
		}
		feed.Log(s.options.Logger, s.store.fresh())
	}
}

// follow hands changes on until ctx ends.
func (s *Source) follow(ctx context.Context, named *credentials, out func([]config.Change, []admission.Finding)) {
	wait := feed.HoldOff{Quiet: s.options.Debounce, Longest: s.options.MaxHoldOff}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.store.wake:
			named.follow()
			timer.Reset(wait.Note(time.Now()))
		case <-timer.C:
			s.publish(false, out)
			wait.Done()
		}
	}
}

func (s *Source) publish(first bool, out func([]config.Change, []admission.Finding)) {
	c := s.store.collect()
	feed.Log(s.options.Logger, c.findings)
	if first {
		c.findings = s.store.findings()
	}
	if len(c.judgements) > 0 {
		s.options.Judged(c.judgements)
	}
	if first || len(c.changes)+len(c.findings) > 0 {
		out(ofCluster(s.cluster, c.changes), c.findings)
	}
}
