package kube

import (
	"slices"
	"sync"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/feed"
	"github.com/sallyport/sallyport/config/source/kube/condition"
)

// store holds each object's last good version, and what changed since that was last asked. Reflectors write to it,
// side by side; one goroutine takes from it.
type store struct {
	mu      sync.Mutex
	objects map[config.Kind]map[config.Key]record
	dirty   map[config.Key]bool
	notes   *feed.Notes[config.Key] // under an object's key; under a key that has but a kind, about that kind
	kinds   map[config.Kind]*kindState
	wake    chan struct{} // holds one when something changed

	secrets      map[config.Key]bool // those that rules name, and whether they were asked for
	rulesChanged bool                // since namedSecrets was last called
}

// record is what is known of one object.
type record struct {
	good       *config.Object // the last good version; nil without any
	sent       uint64         // the hash that was handed on
	wasSent    bool
	gone       bool // deleted, which was not handed on yet
	refused    bool // the newest version is
	judged     bool // a status of ours belongs to it
	generation int64
	reported   uint64
	held       condition.Held
}

// lastGood says whether there is a version that is applied as it is written.
func (r record) lastGood() bool { return r.good != nil && r.good.Refused == "" }

func newStore(kinds []kind) *store {
	s := &store{
		objects: map[config.Kind]map[config.Key]record{}, dirty: map[config.Key]bool{},
		notes: feed.NewNotes[config.Key](), kinds: map[config.Kind]*kindState{}, wake: make(chan struct{}, 1),
	}
	for _, k := range kinds {
		s.objects[k.Kind] = map[config.Key]record{}
		s.kinds[k.Kind] = &kindState{kind: k}
	}
	s.secrets = map[config.Key]bool{}
	for _, k := range namedKinds {
		s.objects[k] = map[config.Key]record{}
		s.kinds[k] = &kindState{kind: namedKind(k), synced: true}
	}
	return s
}

func (s *store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// put takes over a version of an object.
func (s *store) put(k kind, v version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive(k)
	s.set(k, v)
	s.signalDirty()
}

// remove takes an object out.
func (s *store) remove(k kind, key config.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive(k)
	s.drop(k, key)
	s.signalDirty()
}

// replace takes over all objects of a kind: what is not among them is gone.
func (s *store) replace(k kind, all []version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[config.Key]bool, len(all))
	for _, v := range all {
		there[v.key] = true
		s.set(k, v)
	}
	for key := range s.objects[k.Kind] {
		if !there[key] {
			s.drop(k, key)
		}
	}
	s.kinds[k.Kind].synced = true
	s.alive(k)
	s.signal()
}

// bookmark notes that a kind's watch works.
func (s *store) bookmark(k kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive(k)
}

func (s *store) signalDirty() {
	if len(s.dirty) > 0 {
		s.signal()
	}
}

func (s *store) set(k kind, v version) {
	was := s.objects[k.Kind][v.key]
	now := was
	now.gone, now.refused, now.judged = false, v.object == nil, k.told
	now.generation, now.reported, now.held = v.generation, v.reported, v.held
	if v.object != nil && (was.good == nil || was.good.Hash != v.object.Hash) {
		now.good = v.object
	}
	if v.object == nil && !was.lastGood() {
		now.good = v.shut
	}
	if was == now && !now.refused {
		return
	}
	if now.lastGood() {
		v.findings = feed.MarkKept(v.findings, func(admission.Finding) bool { return now.refused })
	}
	s.notes.Set(v.key, v.findings)
	s.objects[k.Kind][v.key] = now
	s.dirty[v.key] = true
	s.rulesChanged = s.rulesChanged || namesSecrets(k.Kind)
}

func (s *store) drop(k kind, key config.Key) {
	was, there := s.objects[k.Kind][key]
	if !there || was.gone {
		return
	}
	s.notes.Set(key, nil)
	s.rulesChanged = s.rulesChanged || namesSecrets(k.Kind)
	s.objects[k.Kind][key] = record{gone: true, sent: was.sent, wasSent: was.wasSent, judged: was.judged}
	s.dirty[key] = true
}

// collected is what changed since the last collection.
type collected struct {
	changes    []config.Change
	findings   []admission.Finding
	judgements []Assessment
}

// collect returns what changed, in order of the keys, and the findings that are new.
func (s *store) collect() collected {
	s.mu.Lock()
	defer s.mu.Unlock()
	var c collected
	for key := range s.dirty {
		r := s.objects[key.Kind][key]
		if r.judged {
			st := s.kinds[key.Kind]
			c.judgements = append(c.judgements, Assessment{
				Key: key, Resource: st.kind.WithVersion(st.version), Gone: r.gone, Refused: r.refused, LastGood: r.lastGood(), Generation: r.generation, Reported: r.reported,
				Held: r.held, Findings: slices.Clone(s.notes.Of(key)),
			})
		}
		if r.good == nil && r.wasSent {
			c.changes = append(c.changes, config.Change{Key: key})
			r.wasSent = false
		} else if r.good != nil && (!r.wasSent || r.good.Hash != r.sent) {
			c.changes = append(c.changes, config.Change{Key: key, Object: r.good})
			r.sent, r.wasSent = r.good.Hash, true
		}
		if r.gone {
			delete(s.objects[key.Kind], key)
		} else {
			s.objects[key.Kind][key] = r
		}
	}
	s.dirty = map[config.Key]bool{} // not cleared: the first batch's table would stay
	slices.SortFunc(c.changes, func(a, b config.Change) int { return a.Key.Compare(b.Key) })
	slices.SortFunc(c.judgements, func(a, b Assessment) int { return a.Key.Compare(b.Key) })
	c.findings = s.notes.Fresh()
	return c
}

// findings returns all that hold, in order.
func (s *store) findings() []admission.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes.All()
}

// fresh returns the findings that are new, in order.
func (s *store) fresh() []admission.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes.Fresh()
}
