package status

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/source/kube/condition"
)

// work brings the status of one object up to date, or has that tried again.
func (w *Writer) work(ctx context.Context, q queue, limit *rate.Limiter, key config.Key) {
	if rest := w.rest(key); rest > 0 {
		q.AddAfter(key, rest)
		return
	}
	if limit.Wait(ctx) != nil {
		return
	}
	w.mu.Lock()
	o := w.objects[key]
	if o == nil || !o.waits() {
		w.mu.Unlock()
		q.Forget(key)
		return
	}
	assessment, want := o.assessment, wishFor(o)
	w.mu.Unlock()

	err := w.client.write(ctx, assessment, want)
	switch {
	case err == nil:
		q.Forget(key)
		w.wrote(key, want.Digest())
	case ctx.Err() != nil:
	case apierrors.IsNotFound(err) || isStale(err):
		q.Forget(key) // the source is about to tell of it
	default:
		level := w.options.Logger.Debug
		if n := q.NumRequeues(key); n == 3 || apierrors.IsForbidden(err) && n == 0 {
			level = w.options.Logger.Warn
		}
		level("cannot write the status of an object, trying again", "object", key.String(), "error", err)
		q.AddRateLimited(key)
	}
}

// rest is how long an object is to be left alone.
func (w *Writer) rest(key config.Key) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.objects[key]; o != nil && !o.written.IsZero() {
		return time.Until(o.written.Add(w.options.Rest))
	}
	return 0
}

// wrote notes what the server holds now.
func (w *Writer) wrote(key config.Key, digest uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.objects[key]; o != nil {
		o.have, o.written = digest, time.Now()
		w.decide(key, o)
	}
}

// merge puts the wanted conditions among those of an object's status; others stay, and a condition whose status does
// not change keeps its time. It says whether anything differs.
func merge(has []map[string]any, was, want condition.Status, now time.Time) (conditions []any, differs bool) {
	for _, c := range has {
		if t, _ := c["type"].(string); !condition.Ours(t) {
			conditions = append(conditions, c)
		}
	}
	for _, c := range want.Conditions {
		c.LastTransitionTime = now.UTC().Format(time.RFC3339)
		for _, old := range was.Conditions {
			if old.Type == c.Type && old.Status == c.Status && old.LastTransitionTime != "" {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
		conditions = append(conditions, c)
	}
	return conditions, was.Digest() != want.Digest()
}
