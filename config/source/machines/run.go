package machines

import (
	"cmp"
	"context"
	"sync"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/machine"
)

// Apply takes changes of the configuration.
func (k *Keeper) Apply(changes []config.Change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range changes {
		switch c.Key.Kind {
		case config.KindWorkloadGroup:
			k.setGroup(c)
		case config.KindWorkloadEntry:
			k.setEntry(c)
		}
	}
}

func (k *Keeper) setGroup(c config.Change) {
	was := k.groups[c.Key]
	if c.Object == nil {
		delete(k.groups, c.Key)
	} else {
		k.groups[c.Key] = c.Object
	}
	for _, h := range k.machines {
		if h.Proxy.GroupKey() != c.Key {
			continue
		}
		switch {
		case !probed(c.Object):
			h.Health = Health{} // what was known is by a probe that is no more
		case was != nil && h.Object != nil && !probed(was):
			h.Health = Health{Known: true, Well: true} // it was served without a probe: it stays so until that has failed
		}
		k.renew(h)
		k.differs(h)
	}
	k.look()
}

func probed(group *config.Object) bool {
	return group != nil && group.Spec.(*networking.WorkloadGroup).Probe != nil
}

// setEntry notes what others write, and that one is gone which is to stand.
func (k *Keeper) setEntry(c config.Change) {
	if c.Object != nil && c.Object.Origin == machine.Origin {
		return
	}
	joined := false
	if c.Object != nil && k.Replica != "" {
		_, _, joined = machine.HolderOf(c.Object.Annotations)
	}
	other := c.Object != nil && !joined
	k.see(c, joined)
	h := k.machines[c.Key]
	if h != nil && (other != k.others[c.Key] || c.Object == nil) {
		h.Again = true
		k.differs(h)
		k.look()
	}
	if delete(k.others, c.Key); other {
		k.others[c.Key] = true
	}
}

// Run makes entries stand and go, until ctx ends. Namespaces take turns, and each has one write under way at most: neither many machines of one that
// change all the time nor a webhook that hangs for one keeps the others' waiting.
func (k *Keeper) Run(ctx context.Context) {
	var writing sync.WaitGroup
	defer writing.Wait()
	for {
		for _, w := range k.due() {
			writing.Go(func() { k.do(ctx, w) })
		}
		timer := time.NewTimer(k.next())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-k.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (k *Keeper) do(ctx context.Context, w work) {
	var err error
	if w.gone {
		err = k.Store.Remove(ctx, w.Entry)
	} else {
		err = k.Store.Put(ctx, w.Entry)
	}
	k.did(w, err)
	k.look()
}

// work is one thing to do.
type work struct {
	Entry
	key    config.Key
	wanted uint64
	gone   bool
	since  time.Time // it could be done
}

// due gives what is to be done now, for each namespace what has waited longest. Those it names have a write under way from then on, until did.
func (k *Keeper) due() (out []work) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, first := k.now(), map[string]work{}
	offer := func(w work) {
		if f, there := first[w.key.Namespace]; !there || cmp.Or(w.since.Compare(f.since), w.key.Compare(f.key)) < 0 {
			first[w.key.Namespace] = w
		}
	}
	for key, h := range k.open {
		ends := h.streams == 0 && !now.Before(h.until)
		h.Others = k.others[key]
		switch {
		case now.Before(h.again) || k.others[key] && !ends:
		case ends || h.Object == nil && h.wanted != h.done:
			offer(work{h.Entry, key, h.wanted, true, h.again})
		case h.wanted != h.done:
			offer(work{h.Entry, key, h.wanted, false, h.again})
		}
	}
	k.left(now)
	for _, w := range k.leaving {
		offer(w)
	}
	return k.turns.give(first)
}

// did notes what became of it. One whose proxy came back meanwhile is kept, and put again.
func (k *Keeper) did(w work, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turns.end(w.key.Namespace)
	h := k.machines[w.key]
	if w.Left != nil {
		k.wasLeft(w, err)
		return
	}
	if h == nil {
		return
	}
	if err != nil {
		h.again = k.now().Add(retry)
		k.Log.Warn("the WorkloadEntry of a machine is not as it should be, and is tried again", "entry", w.key.String(), "error", err)
		return
	}
	h.again, h.done = k.now().Add(pause), w.wanted
	if h.wanted == w.wanted {
		h.Again = false
	}
	if h.streams > 0 && h.wanted == h.done {
		delete(k.open, w.key)
	}
	if w.gone && h.streams == 0 && h.wanted == w.wanted && !k.now().Before(h.until) {
		delete(k.machines, w.key)
		delete(k.open, w.key)
		if k.of[h.Proxy.GroupKey()]--; k.of[h.Proxy.GroupKey()] == 0 {
			delete(k.of, h.Proxy.GroupKey())
		}
		k.Log.Info("a machine has left", "entry", w.key.String())
	}
}

// wasLeft notes what became of one that nobody held. What could not be removed is tried again after a while.
func (k *Keeper) wasLeft(w work, err error) {
	delete(k.leaving, w.key)
	if s := k.joined[w.key]; s != nil {
		s.since = time.Time{}
	}
	if err != nil {
		k.Log.Warn("a WorkloadEntry whose machine is gone stays, and its removal is tried again", "entry", w.key.String(), "error", err)
		return
	}
	k.Log.Info("a machine has left that no replica of the control plane knew", "entry", w.key.String())
}

// next is how long nothing is due. The end of a write that is under way wakes Run.
func (k *Keeper) next() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, out := k.now(), time.Hour
	if len(k.joined) > 0 {
		out = lookEvery
	}
	if k.turns.full() {
		return out
	}
	for key, h := range k.open {
		if k.turns.under(key.Namespace) {
			continue
		}
		if h.streams == 0 {
			out = min(out, max(h.until.Sub(now), h.again.Sub(now)))
		}
		if h.wanted != h.done && !k.others[key] { // what somebody else wrote is left alone, and told of when it goes
			out = min(out, h.again.Sub(now))
		}
	}
	return max(out, 0)
}
