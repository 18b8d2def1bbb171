package machines

import (
	"context"
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
		if !h.Health.Known && was != nil && h.Object != nil && !probed(was) && probed(c.Object) {
			h.Health = Health{Known: true, Well: true} // it was served without a probe: it stays so until that has failed
		}
		k.renew(h)
		h.differs()
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
		h.differs()
		k.look()
	}
	if delete(k.others, c.Key); other {
		k.others[c.Key] = true
	}
}

// Run makes entries stand and go, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(k.settle(ctx))
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

// settle does what is due, and says how long nothing else is.
func (k *Keeper) settle(ctx context.Context) time.Duration {
	for _, w := range k.due() {
		if ctx.Err() != nil {
			break
		}
		var err error
		if w.gone {
			err = k.Store.Remove(ctx, w.Entry)
		} else {
			err = k.Store.Put(ctx, w.Entry)
		}
		k.did(w, err)
	}
	return k.next()
}

// work is one thing to do.
type work struct {
	Entry
	key    config.Key
	wanted uint64
	gone   bool
}

func (k *Keeper) due() (out []work) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	for key, h := range k.machines {
		ends := h.streams == 0 && !now.Before(h.until)
		h.Others = k.others[key]
		switch {
		case now.Before(h.again) || k.others[key] && !ends:
		case ends || h.Object == nil && h.wanted != h.done:
			out = append(out, work{h.Entry, key, h.wanted, true})
		case h.wanted != h.done:
			out = append(out, work{h.Entry, key, h.wanted, false})
		}
	}
	return append(out, k.left(now)...)
}

// did notes what became of it. One whose proxy came back meanwhile is kept, and put again.
func (k *Keeper) did(w work, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
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
	if w.gone && h.streams == 0 && h.wanted == w.wanted && !k.now().Before(h.until) {
		delete(k.machines, w.key)
		if k.of[h.Proxy.GroupKey()]--; k.of[h.Proxy.GroupKey()] == 0 {
			delete(k.of, h.Proxy.GroupKey())
		}
		k.Log.Info("a machine has left", "entry", w.key.String())
	}
}

// wasLeft notes what became of one that nobody held. What could not be removed is tried again after a while.
func (k *Keeper) wasLeft(w work, err error) {
	if s := k.joined[w.key]; s != nil {
		s.since = time.Time{}
	}
	if err != nil {
		k.Log.Warn("a WorkloadEntry whose machine is gone stays, and its removal is tried again", "entry", w.key.String(), "error", err)
		return
	}
	k.Log.Info("a machine has left that no replica of the control plane knew", "entry", w.key.String())
}

// next is how long nothing is due.
func (k *Keeper) next() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, out := k.now(), time.Hour
	if len(k.joined) > 0 {
		out = lookEvery
	}
	for key, h := range k.machines {
		if h.streams == 0 {
			out = min(out, max(h.until.Sub(now), h.again.Sub(now)))
		}
		if h.wanted != h.done && !k.others[key] { // what somebody else wrote is left alone, and told of when it goes
			out = min(out, h.again.Sub(now))
		}
	}
	return max(out, 0)
}
