package status

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/source/kube"
)

// Writer knows which status each object should have and which it has. Its methods may be called side by side.
type Writer struct {
	options Options
	client  *client

	mu      sync.Mutex
	objects map[config.Key]*object
	queue   queue // while Run runs
}

// waits says whether an object's status is to be written.
func (o *object) waits() bool { return o.known && o.want != o.have }

type queue = workqueue.TypedRateLimitingInterface[config.Key]

// object is what is known of one.
type object struct {
	assessment kube.Assessment // as the source gave it
	details    Details
	detailed   bool      // Update told of it
	known      bool      // it is known what the status is to say
	want       uint64    // the digest of that
	have       uint64    // the digest of what the server holds
	written    time.Time // when it was written last
}

// New makes a writer that writes nothing until it is run.
func New(server *rest.Config, o Options) (*Writer, error) {
	o = o.withDefaults()
	c, err := newClient(server, 2*o.PerSecond)
	if err != nil {
		return nil, fmt.Errorf("access to the API server at %s: %w", server.Host, err)
	}
	return &Writer{options: o, client: c, objects: map[config.Key]*object{}}, nil
}

// Judged takes over what the source found; it is meant as kube.Options.Judged. It does not block.
func (w *Writer) Judged(all []kube.Assessment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range all {
		if j.Gone {
			delete(w.objects, j.Key)
			continue
		}
		o := w.objects[j.Key]
		if o == nil {
			o = &object{}
			w.objects[j.Key] = o
		}
		o.assessment, o.have = j, j.Reported
		w.decide(j.Key, o)
	}
}

// Update takes over what the registry made of objects. Every ServiceEntry and every EgressPolicy must be mentioned once it is
// applied: before that its status is not written, since its gateway, or its revision, is not known. Objects that the source does not have are ignored.
// It does not block.
func (w *Writer) Update(all map[config.Key]Details) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, d := range all {
		if o := w.objects[key]; o != nil {
			o.details, o.detailed = d, true
			w.decide(key, o)
		}
	}
}

// decide computes the status that an object should have, and has it written if it has another.
func (w *Writer) decide(key config.Key, o *object) {
	want := wishFor(o)
	if o.known = want != nil; !o.known {
		return
	}
	o.want = want.Digest()
	if o.want != o.have && w.queue != nil {
		w.queue.AddAfter(key, w.options.Settle)
	}
}

// HeldEnforced is the revision of an EgressPolicy, as it is written now, of which the server holds that all proxies have it; "" for none.
func (w *Writer) HeldEnforced(key config.Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[key]
	if o == nil || o.assessment.Held.Enforced == nil {
		return ""
	}
	held := o.assessment.Held.Enforced
	if held.Condition.Status != "True" || int64(held.Condition.ObservedGeneration) != o.assessment.Generation {
		return ""
	}
	return held.Revision
}

// Pending is how many objects have another status than they should.
func (w *Writer) Pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, o := range w.objects {
		if o.waits() {
			n++
		}
	}
	return n
}

// Run writes until ctx ends, which is no error. It may be called again, but not twice at once. Nothing is written
// after it returned.
func (w *Writer) Run(ctx context.Context) error {
	q := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[config.Key](w.options.RetryMin, w.options.RetryMax))
	w.mu.Lock()
	w.queue = q
	for key, o := range w.objects {
		if o.waits() {
			q.AddAfter(key, w.options.Settle)
		}
	}
	w.mu.Unlock()

	limit := rate.NewLimiter(rate.Limit(w.options.PerSecond), 1)
	var workers sync.WaitGroup
	for range w.options.Workers {
		workers.Go(func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				if ctx.Err() == nil {
					w.work(ctx, q, limit, key)
				}
				q.Done(key)
			}
		})
	}
	<-ctx.Done()
	w.mu.Lock()
	w.queue = nil
	w.mu.Unlock()
	q.ShutDown()
	workers.Wait()
	utilnet.CloseIdleConnectionsFor(w.client.http.Transport)
	return nil
}
