package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/sidecar/relay/state"
	"github.com/sallyport/sallyport/xds/digest"
)

// MaxMessage is the largest message, in bytes, that the gRPC connections on both sides must let through: a wildcard
// response holds every resource of its type.
const MaxMessage = 64 << 20

// Config is what a Relay needs.
type Config struct {
	Log        *slog.Logger
	Node       *corev3.Node // how the agent presents itself until Envoy has sent its own node
	Controller discoveryv3.AggregatedDiscoveryServiceClient
	StateDir   string
	Watches    []Watch
	Listeners  []string // without which Envoy is of no use, see Lacks
	// ByName says that virtual hosts that Envoy is given when they are used are asked for by name, where the controller can give them so.
	ByName bool
	// Certificates says that Envoy asks for certificates by the names that clients say (SecretType); secrets are among Watches then.
	Certificates bool
	// Taken is told what Envoy has taken of a response, when it has said so, and the names that it has lost, of a refused one too. It is called in the
	// relay's goroutine. nil: nobody wants to know.
	Taken func(typeURL string, changed []*discoveryv3.Resource, removed []string)
	// Open gives the hosts, as tables know them, that something is open to or under way: what there is for them is in use. A table is "" for each. It is called in the relay's goroutine.
	// nil: nobody knows.
	Open func(each func(table, host string))

	Grace   time.Duration // how long Envoy waits for the controller before the disk answers; 0 for 1 s
	Backoff Backoff       // between streams to the controller
}

// Relay serves one Envoy at a time and keeps one stream to the controller.
type Relay struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	cfg     Config
	log     *slog.Logger
	store   *state.Store
	machine *machine // the loop's own

	sessions   chan *session
	requests   chan request
	controller chan controllerEvent
	calls      chan func()
	stopped    chan struct{}

	synced    atomic.Bool
	settled   atomic.Bool
	missing   atomic.Pointer[string] // see Lacks
	reachable atomic.Bool
}

// New loads what is on disk and hands it to the watchers. Only a state directory that cannot be made is an error.
func New(cfg Config) (*Relay, error) {
	if cfg.Grace == 0 {
		cfg.Grace = time.Second
	}
	var set *digest.Set
	store, err := state.Open(cfg.StateDir, cfg.Node.GetId(), cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	if cfg.ByName {
		set = &digest.Set{}
		cfg.Watches = append(slices.Clip(cfg.Watches), digestWatch(set))
	}
	var certificates *certificates
	if cfg.Certificates {
		certificates = newCertificates(cfg.Log)
		cfg.Watches = append(slices.Clip(cfg.Watches), certificates.watch())
	}
	r := &Relay{
		cfg: cfg, log: cfg.Log, store: store,
		machine:  newMachine(cfg.Log, store, cfg.Node, cfg.Watches),
		sessions: make(chan *session), requests: make(chan request), controller: make(chan controllerEvent),
		calls: make(chan func()), stopped: make(chan struct{}),
	}
	r.machine.certificates, r.machine.after = certificates, r.after
	r.machine.listeners, r.machine.taken, r.machine.open, r.machine.digest = cfg.Listeners, cfg.Taken, cfg.Open, set
	r.machine.restore()
	return r, nil
}

// after has something done in the relay's goroutine when a channel is closed.
func (r *Relay) after(closed <-chan struct{}, do func()) {
	go func() {
		select {
		case <-closed:
		case <-r.stopped:
			return
		}
		select {
		case r.calls <- do:
		case <-r.stopped:
		}
	}()
}

// Register adds the relay's ADS to the agent's server.
func (r *Relay) Register(server grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, r)
}

// Run relays until ctx ends; then it has written what was accepted, and every stream has ended or is about to.
func (r *Relay) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var writer sync.WaitGroup
	var writing error
	writeCtx, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	writer.Go(func() { writing = r.store.Run(writeCtx) })

	l := &loop{Relay: r, ctx: ctx, backoff: r.cfg.Backoff}
	l.run()
	cancel()
	close(r.stopped)
	l.streams.Wait()
	stopWriting()
	writer.Wait()
	if writing != nil {
		return fmt.Errorf("relay: writing the accepted configuration: %w", writing)
	}
	return nil
}

// Synced tells whether the connected Envoy has accepted its clusters and listeners.
func (r *Relay) Synced() bool { return r.synced.Load() }

// Settled tells whether the connected Envoy has accepted all that it asked for by now, as the controller says it and not the disk alone.
func (r *Relay) Settled() bool { return r.settled.Load() }

// Lacks says what the connected Envoy still has to accept before it can serve the pod; "" when it has everything.
func (r *Relay) Lacks() string {
	if why := r.missing.Load(); why != nil {
		return *why
	}
	return "envoy has not connected yet"
}

// Connected tells whether the controller has answered on the present stream.
func (r *Relay) Connected() bool { return r.reachable.Load() }

// errStopped answers calls after Run has ended.
var errStopped = errors.New("the relay has stopped")

// call runs f in the relay's goroutine.
func (r *Relay) call(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case r.calls <- func() { f(); close(done) }:
		<-done
		return nil
	case <-r.stopped:
		return errStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}
