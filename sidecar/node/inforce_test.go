package node

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/ambient"
)

// TestOtherListenersCountLater: that a pod which is served has other listeners the controller hears when Envoy listens by them, or after a while; of all else at once.
func TestOtherListenersCountLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := podsWith(t)
		var warming atomic.Bool
		p.cfg.Warming = func(context.Context) bool { return warming.Load() }
		taken := func() {
			p.Listeners.mu.Lock()
			defer p.Listeners.mu.Unlock()
			p.Listeners.taken = true
		}
		say := func(body byte) <-chan struct{} {
			r := p.remote[l.Key()]
			if r.Templates = nil; body > 0 {
				r.Templates = map[string][]byte{ambient.PodTunnel: {body}}
			}
			if refused := p.apply([]*discoveryv3.Resource{{Name: l.Key(), Resource: &anypb.Any{Value: r.Marshal()}}}, nil); len(refused) > 0 {
				t.Fatal(refused)
			}
			return p.inForce()
		}
		takes := func() {
			_, change, _ := p.differs()
			for _, s := range change {
				p.Listeners.open(l.Key(), s.door())
			}
		}
		// within says whether the word is given after a while of that length.
		within := func(counts <-chan struct{}, d time.Duration) bool {
			time.Sleep(d)
			synctest.Wait()
			select {
			case <-counts:
				return true
			default:
				return false
			}
		}
		if counts := say(0); counts != nil {
			t.Error("nothing is otherwise, and it does not count at once")
		}
		taken()
		counts := say(1)
		if within(counts, 20*time.Millisecond) {
			t.Error("it counts before anybody has looked at it")
		}
		takes()
		if within(counts, 20*time.Millisecond) {
			t.Error("it counts before Envoy has taken it")
		}
		warming.Store(true)
		taken()
		if within(counts, 20*time.Millisecond) {
			t.Error("it counts before Envoy listens")
		}
		if warming.Store(false); !within(counts, 20*time.Millisecond) {
			t.Error("it never counts")
		}
		counts = say(2) // and Envoy does not take it
		takes()
		if within(counts, inForceAtMost/2) || !within(counts, inForceAtMost) {
			t.Error("it does not count after a while")
		}
		p.served[l.Key()].err = context.Canceled
		if !within(say(3), 20*time.Millisecond) {
			t.Error("a pod that is not served keeps the controller waiting")
		}
	})
}
