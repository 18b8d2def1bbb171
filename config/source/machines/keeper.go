package machines

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/machine"
)

// Most is how many machines a group has at most.
const Most = 1000

// Grace is how long an entry stays after its proxy went: Istio's default.
const Grace = 10 * time.Second

// Patience is how long the machines that an earlier run knew have to come back.
const Patience = 30 * time.Second

// retry is how long is waited after a Store failed.
const retry = time.Second

// pause is how long an entry that was written stays as it is: a machine that is well and not well by turns costs no more than that.
const pause = 500 * time.Millisecond

// Health is how a machine is, by the probe of its group. The zero value is that nobody knows.
type Health struct {
	Known, Well bool
	Why         string // it is not well
}

// Entry is what is to stand of a machine.
type Entry struct {
	Proxy     machine.Proxy
	Health    Health
	Connected time.Time
	Gone      time.Time      // zero while its proxy is connected
	Object    *config.Object `json:"-"`
	Again     bool           `json:"-"` // what stood was taken away by somebody else
	Others    bool           `json:"-"` // what stands is somebody else's
	Left      *config.Object `json:"-"` // what was seen of an entry that nobody holds; then nothing else is set
}

// Key is the entry's.
func (e Entry) Key() config.Key {
	if e.Left != nil {
		return e.Left.Key
	}
	return e.Proxy.Key()
}

// Store makes entries stand, and go. Both may be called again for the same.
type Store interface {
	Put(ctx context.Context, e Entry) error
	Remove(ctx context.Context, e Entry) error
}

// Keeper knows the machines. Its methods may be called at the same time, and wait for nothing but Run.
type Keeper struct {
	Log   *slog.Logger
	Store Store
	Grace time.Duration // 0 for the default
	// Replica is this one, as machine.Holder writes it, and Alive says whether there is such a pod, where several share an API server. Without them, what
	// stands in the configuration is all written by others.
	Replica string
	Alive   func(namespace, pod string) bool
	now     func() time.Time

	mu       sync.Mutex
	groups   map[config.Key]*config.Object
	machines map[config.Key]*held // by their entries
	of       map[config.Key]int   // how many a group has
	others   map[config.Key]bool  // entries that somebody wrote by hand
	joined   map[config.Key]*seen // entries of machines in the API server
	turns    fairQueue
	open     map[config.Key]*held // those of machines of which something is to be done, now or later
	leaving  map[config.Key]work  // what was found last that nobody holds
	looked   time.Time            // when that was
	wake     chan struct{}
}

// seen is such an entry, and since when nobody seems to hold it; zero while somebody does.
type seen struct {
	object *config.Object
	since  time.Time
}

// held is a machine that is kept.
type held struct {
	Entry
	streams int
	until   time.Time // when it goes, while it has no stream
	again   time.Time // a Store failed: when it is tried again

	wanted, done uint64 // what is to stand, and what does
}

// differs is that something else is to stand of a machine than what does. k.mu is held.
func (k *Keeper) differs(h *held) {
	h.wanted++
	k.open[h.Proxy.Key()] = h
}

// is says whether it is that machine: others' entries may have the same name, since parts of addresses may be parts of groups' names, too.
func (h *held) is(p machine.Proxy) bool {
	return h.Proxy.GroupKey() == p.GroupKey() && h.Proxy.Address == p.Address
}

// New makes a keeper that knows nobody.
func New(log *slog.Logger, store Store) *Keeper {
	return &Keeper{
		Log: log, Store: store, Grace: Grace, now: time.Now, groups: map[config.Key]*config.Object{}, machines: map[config.Key]*held{},
		of: map[config.Key]int{}, others: map[config.Key]bool{}, joined: map[config.Key]*seen{}, turns: newFairQueue(), open: map[config.Key]*held{}, leaving: map[config.Key]work{}, wake: make(chan struct{}, 1),
	}
}

// Restore takes over what an earlier run knew, before anything else is called.
func (k *Keeper) Restore(entries []Entry) {
	for _, e := range entries {
		h := &held{Entry: e, until: k.now().Add(Patience)}
		if h.Gone.IsZero() {
			h.Gone = k.now()
		}
		h.Object = nil
		k.machines[e.Proxy.Key()], k.open[e.Proxy.Key()] = h, h
		k.of[e.Proxy.GroupKey()]++
	}
}

// InForce is what is to stand by now.
func (k *Keeper) InForce() (out []Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, h := range k.machines {
		if h.Object != nil && !k.others[key] {
			out = append(out, h.Entry)
		}
	}
	return out
}

// NoGroup says that there is no such group, or not yet.
type NoGroup struct{ Key config.Key }

func (e NoGroup) Error() string {
	return fmt.Sprintf("there is no %s; write it, or give the agent another ISTIO_META_AUTO_REGISTER_GROUP", e.Key)
}

// Admit says as what a proxy may join.
func (k *Keeper) Admit(p machine.Proxy) (labels map[string]string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o, err := k.entry(p)
	if err != nil {
		return nil, err
	}
	if k.others[o.Key] {
		return nil, fmt.Errorf("%s is there already, and is no machine's of %s: give one of the two another name", o.Key, p.GroupKey())
	}
	h := k.machines[o.Key]
	if h != nil && !h.is(p) {
		return nil, fmt.Errorf("%s is that of the machine %s of %s: give one of the two groups another name", o.Key, h.Proxy.Address, h.Proxy.GroupKey())
	}
	if h == nil && k.of[p.GroupKey()] >= Most {
		return nil, fmt.Errorf("%s has %d machines already, and no group has more; write another one", p.GroupKey(), Most)
	}
	return o.Labels, nil
}

// Labels are those that a proxy that was admitted has by its group as that is now; not ok where it could not join any more.
func (k *Keeper) Labels(p machine.Proxy) (labels map[string]string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o, err := k.entry(p)
	if err != nil {
		return nil, false
	}
	return o.Labels, true
}

// entry is that of a proxy, as its group is now. k.mu is held.
func (k *Keeper) entry(p machine.Proxy) (*config.Object, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	group := k.groups[p.GroupKey()]
	if group == nil {
		return nil, NoGroup{p.GroupKey()}
	}
	o, err := machine.Entry(group, p)
	if err != nil {
		return nil, err
	}
	for _, f := range admission.Validate(*o) {
		if f.Severity == admission.Error {
			return nil, fmt.Errorf("%s may not join %s: its WorkloadEntry would be refused: %s", p.Address, group.Key, f)
		}
	}
	return o, nil
}

// Came is that a proxy that was admitted is connected.
func (k *Keeper) Came(p machine.Proxy) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.machines[p.Key()]
	if h != nil && !h.is(p) {
		return // two came at once, and the other was first
	}
	if h == nil {
		h = &held{}
		k.machines[p.Key()] = h
		k.of[p.GroupKey()]++
	}
	delete(k.leaving, p.Key())
	h.streams++
	if h.streams == 1 {
		h.Connected, h.Gone = k.now(), time.Time{}
	}
	h.Proxy = p
	k.renew(h)
	k.differs(h)
	k.look()
}

// Went is that a connection of a proxy that came has ended.
func (k *Keeper) Went(p machine.Proxy) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.machines[p.Key()]
	if h == nil || h.streams == 0 || !h.is(p) {
		return
	}
	if h.streams--; h.streams == 0 {
		h.Gone = k.now()
		h.until = h.Gone.Add(k.Grace)
		k.differs(h)
		k.look()
	}
}

// Tell is how a machine is, by its agent. Where its group has no probe it counts for nothing: it is about one that there was.
func (k *Keeper) Tell(p machine.Proxy, now Health) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.machines[p.Key()]
	if h == nil || h.Health == now || !h.is(p) || !probed(k.groups[p.GroupKey()]) {
		return
	}
	h.Health = now
	k.renew(h)
	k.differs(h)
	k.look()
}

// renew makes the object of an entry anew; nil where there is none any more. k.mu is held.
func (k *Keeper) renew(h *held) {
	o, err := k.entry(h.Proxy)
	if err != nil {
		if h.Object != nil {
			k.Log.Warn("a machine is no endpoint any more", "entry", h.Object.Key.String(), "reason", err)
		}
		h.Object = nil
		return
	}
	if probed(k.groups[h.Proxy.GroupKey()]) {
		switch {
		case !h.Health.Known:
			machine.TakeOut(o, "its group has a probe, which has not succeeded yet")
		case !h.Health.Well:
			machine.TakeOut(o, "its probe fails: "+h.Health.Why)
		}
	}
	h.Object = o
}

func (k *Keeper) look() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Group is one that there is; nil without one.
func (k *Keeper) Group(key config.Key) *config.Object {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.groups[key]
}

// Joins says whether machines of an account may join by some group of its namespace.
func (k *Keeper) Joins(namespace, account string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, g := range k.groups {
		if spec := g.Spec.(*networking.WorkloadGroup); key.Namespace == namespace && spec.Template != nil && machine.AccountOf(spec) == account {
			return true
		}
	}
	return false
}
