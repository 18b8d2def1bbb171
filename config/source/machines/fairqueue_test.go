package machines

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/machine"
)

// TestNamespacesTakeTurns: however many machines one namespace has to write of, another's waits for one of them.
func TestNamespacesTakeTurns(t *testing.T) {
	l := newLab(group("shop", "db", "db", false), group("bank", "db", "db", false))
	for i := range 500 {
		l.join(t, proxy(fmt.Sprintf("192.0.%d.%d", i/250, 1+i%250)))
	}
	p := proxy("198.51.100.1")
	p.Namespace = "bank"
	l.join(t, p)
	for _, w := range l.due() {
		l.do(t.Context(), w)
	}
	if len(l.shelf.calls) != 2 {
		t.Fatalf("%v", l.shelf.calls)
	}
	if _, there := l.shelf.stands["db-198.51.100.1"]; !there {
		t.Errorf("%v", l.shelf.calls)
	}
	l.settle(t.Context())
	if len(l.shelf.stands) != 501 {
		t.Errorf("%d entries", len(l.shelf.stands))
	}
}

// TestWhoWaitedLongest: a machine that changes again and again does not get before others of its namespace.
func TestWhoWaitedLongest(t *testing.T) {
	l := newLab(group("shop", "db", "db", true))
	restless, calm := proxy("192.0.2.1"), proxy("192.0.2.2")
	l.join(t, restless)
	l.after(pause)
	l.join(t, calm)
	l.Tell(restless, Health{Known: true})
	works := l.due()
	if len(works) != 1 || works[0].key != calm.Key() {
		t.Fatalf("%+v", works)
	}
	if more := l.due(); len(more) != 0 {
		t.Errorf("two writes of a namespace at once: %+v", more)
	}
	l.do(t.Context(), works[0])
	if works = l.due(); len(works) != 1 || works[0].key != restless.Key() {
		t.Fatalf("%+v", works)
	}
}

// hanging is a Store whose writes for some namespaces do not end.
type hanging struct {
	hangs func(namespace string) bool
	put   chan machine.Proxy
}

func (h hanging) Put(ctx context.Context, e Entry) error {
	if h.hangs(e.Proxy.Namespace) {
		<-ctx.Done()
		return ctx.Err()
	}
	h.put <- e.Proxy
	return nil
}

func (h hanging) Remove(context.Context, Entry) error { return nil }

// TestHangingNamespace: a write that does not end keeps nobody waiting but its own namespace.
func TestHangingNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(group("shop", "db", "db", false), group("bank", "db", "db", false))
		store := hanging{func(ns string) bool { return ns == "shop" }, make(chan machine.Proxy)}
		l.Store, l.now = store, time.Now
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { l.Run(ctx); close(ended) }()
		l.join(t, proxy("192.0.2.1"))
		synctest.Wait()
		for i := range 3 {
			p := proxy(fmt.Sprintf("198.51.100.%d", 1+i))
			p.Namespace = "bank"
			l.join(t, p)
			if got := <-store.put; got.Address != p.Address {
				t.Error(got)
			}
		}
		end()
		<-ended
	})
}

// TestWritersAreFew: at most so many writes are under way, and who has had no turn for longest is next.
func TestWritersAreFew(t *testing.T) {
	l := newLab()
	for i := range 3 * writers {
		ns := fmt.Sprintf("ns%02d", i)
		l.groups[group(ns, "db", "db", false).Key] = group(ns, "db", "db", false)
		for n := range 2 {
			p := proxy(fmt.Sprintf("192.0.2.%d", 1+n))
			p.Namespace = ns
			l.join(t, p)
		}
	}
	turn := map[string]int{}
	for round := range 6 {
		works := l.due()
		if len(works) != writers {
			t.Fatalf("round %d: %d writes", round, len(works))
		}
		if d := l.next(); d <= 0 {
			t.Errorf("round %d: all writers are busy, and there is something to do in %v", round, d)
		}
		for _, w := range works {
			if turn[w.key.Namespace]++; turn[w.key.Namespace] != 1+round/3 {
				t.Errorf("round %d: %s has its turn %d", round, w.key.Namespace, turn[w.key.Namespace])
			}
		}
		for _, w := range works {
			l.do(t.Context(), w)
		}
	}
	if works := l.due(); len(works) != 0 || len(l.turns.last) != 0 {
		t.Errorf("%+v, %v", works, l.turns)
	}
}

// TestNothingToDoIsOpen: what stands as it is to is not gone through again.
func TestNothingToDoIsOpen(t *testing.T) {
	l := newLab(group("shop", "db", "db", false))
	p := proxy("192.0.2.1")
	l.join(t, p)
	if l.after(pause); len(l.open) != 0 {
		t.Errorf("%d are open", len(l.open))
	}
	l.Went(p)
	if l.after(time.Second); len(l.open) != 1 {
		t.Errorf("%d are open", len(l.open))
	}
	if l.after(Grace); len(l.open)+len(l.machines) != 0 {
		t.Errorf("%d are open of %d", len(l.open), len(l.machines))
	}
}

// TestWhoComesWaits: namespaces that have something to do again and again, and nothing in between, do not get before one that waits.
func TestWhoComesWaits(t *testing.T) {
	restless := func(round, i int) string { return fmt.Sprintf("busy-%d-%02d", round%2, i) }
	turns := newFairQueue()
	waiting := work{key: config.Key{Kind: config.KindWorkloadEntry, Namespace: "waits", Name: "one"}}
	turns.give(map[string]work{"waits": waiting})
	turns.end("waits")
	for round := range 10 {
		first := map[string]work{"waits": waiting}
		for i := range writers {
			ns := restless(round, i)
			first[ns] = work{key: config.Key{Kind: config.KindWorkloadEntry, Namespace: ns, Name: "one"}}
		}
		given := turns.give(first)
		if slices.ContainsFunc(given, func(w work) bool { return w.key == waiting.key }) {
			return
		}
		for _, w := range given {
			turns.end(w.key.Namespace)
		}
	}
	t.Error("it waits for ever")
}
