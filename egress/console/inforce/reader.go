package inforce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/egress/console"
)

// Options of a Reader.
type Options struct {
	Access *rest.Config
	// Mesh reads the mesh's settings.
	Mesh func() (mesh.Config, error)
	// Idle is how long nobody asks until what was read is forgotten: 15 minutes.
	Idle   time.Duration
	Logger *slog.Logger
}

// Bounds.
const (
	usualIdle     = 15 * time.Minute
	refusedWithin = 3 * time.Second  // kinds that the API server says it does not give are not waited for longer
	firstWithin   = 10 * time.Second // from when somebody asks first, all wait so long; it is read on meanwhile
	againAfter    = 3 * time.Second  // what could not be read is tried again
	lookEvery     = time.Second      // whether the API server answers, and whether anybody still asks
	meshEvery     = 5 * time.Second
)

// Reader reads a cluster's configuration while somebody asks for it.
type Reader struct {
	Options
	asked chan struct{} // holds one

	mu   sync.Mutex
	used time.Time
	view *view // nil while nothing is read
	last *view // that could not be read, if any
}

// New makes a reader, which reads nothing before it is run and asked.
func New(o Options) *Reader {
	o.Idle = cmp.Or(o.Idle, usualIdle)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reader{Options: o, asked: make(chan struct{}, 1)}
}

// Run reads while somebody asks, until ctx ends.
func (r *Reader) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.asked:
		}
		if v := r.current(); v != nil {
			r.Logger.Info("console: somebody asks about the cluster's configuration: it is read")
			v.follow(ctx, func() bool { return r.forget(v) })
			r.drop(v)
		}
	}
}

// Config gives what is in force. It waits a while where nothing was read yet.
func (r *Reader) Config(ctx context.Context) (*console.Config, error) {
	v := r.wake()
	ctx, cancel := context.WithDeadline(ctx, v.begun.Add(firstWithin))
	defer cancel()
	select {
	case <-v.ready:
		return v.config()
	default:
	}
	select {
	case <-v.ready:
		return v.config()
	case <-ctx.Done():
	}
	if unread, _ := v.source.Trouble(); len(unread) > 0 {
		return nil, fmt.Errorf("%s", unread[0].Message)
	}
	return nil, errors.New("the cluster's objects are being read: ask again in some seconds")
}

// wake begins to read where nothing is read.
func (r *Reader) wake() *view {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = time.Now()
	if r.view == nil && r.last != nil && time.Since(r.last.begun) < againAfter {
		return r.last
	}
	if r.last = nil; r.view == nil {
		r.view = newView(r.Options)
	}
	select {
	case r.asked <- struct{}{}:
	default:
	}
	return r.view
}

func (r *Reader) current() *view {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view
}

// forget says whether nobody asked for long, and forgets what was read then.
func (r *Reader) forget(v *view) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.used) < r.Idle {
		return false
	}
	if r.view == v {
		r.view = nil
	}
	return true
}

// drop makes the next question begin anew.
func (r *Reader) drop(v *view) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view == v {
		r.view = nil
		if v.failed() {
			r.last = v
		}
	}
}
