package tunnels

import (
	"context"
	"slices"
	"time"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// A connection whose client has said that it sends no more keeps its place until its server says so, too, or for as long as Envoy lets it rest. Envoy does not read from such a client: it sees neither that the client is gone
// nor a reset. But it has handed on to the server what the client said, and reads what comes from there. So the connection with the server is found among those by which the proxy has said all, whoever it is for, and ended:
// with it ends the client's (docs/adr/0179-half-closed-connections-end.md).

const (
	// halfRest is for how long a server may say nothing whose client has said all.
	halfRest = 15 * time.Minute
	// halfRestFew is the same while few places are left, and many are kept so.
	halfRestFew = time.Minute
	// halfEvery is how often it is looked for them.
	halfEvery = 30 * time.Second
)

// RunHalf ends connections with servers that say nothing, and to which nothing is to be said any more, until ctx ends.
func (t *Table) RunHalf(ctx context.Context) {
	if t.cfg.Ender == nil || t.cfg.Half == nil {
		return
	}
	next := time.NewTicker(halfEvery)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		ended, err := t.endHalf(ctx, halfRest, t.cfg.Most)
		if ended > 0 {
			t.cfg.Log.Info("connections are ended whose client has said all, and whose server neither answers nor ends", "connections", ended, "quiet_for", halfRest)
		}
		if err != nil {
			t.notFound(err, "it is not known which connections are half closed; they are kept")
		}
	}
}

// endHalf ends those that have been so for that long, and in which nothing has moved for as long: at most so many, the oldest first.
func (t *Table) endHalf(ctx context.Context, rests time.Duration, most int) (ended int, err error) {
	if t.cfg.Half == nil || t.cfg.Ender == nil {
		return 0, nil
	}
	list, err := t.halfSince(rests)
	if err != nil || rests < halfRest && len(list) <= t.cfg.Most/roomPart {
		return 0, err
	}
	for _, c := range list[:min(most, len(list))] {
		if ctx.Err() != nil {
			break
		}
		if t.endResting(ctx, c, &t.stats.Half, "a half-closed connection could not be ended", "server", c.Remote) {
			ended++
		}
	}
	return ended, nil
}

// halfSince are they, the oldest first. How long one has been so the kernel does not say: it counts from when it was seen first.
func (t *Table) halfSince(rests time.Duration) (list []sockdiag.Connection, err error) {
	now, there := time.Now(), map[uint64]time.Time{}
	t.mu.Lock()
	known := t.half
	t.mu.Unlock()
	err = t.cfg.Half(halfRestFew, func(a sockdiag.Activity) {
		since, is := known[a.Cookie]
		if !is {
			since = now
		}
		there[a.Cookie] = since
		if now.Sub(since) >= rests && a.Quiet >= rests {
			list = append(list, a.Connection)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b sockdiag.Connection) int { return there[a.Cookie].Compare(there[b.Cookie]) })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.half = there
	return list, nil
}
