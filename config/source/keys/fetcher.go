package keys

import (
	"context"
	"hash/fnv"
	"log/slog"
	"maps"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/inside"
)

// Wanted is a set of keys that somebody wants.
type Wanted struct {
	Source
	Allowed inside.Allowed
	// Refused says why it is not fetched, though it is wanted; "" where it is.
	Refused string
}

// Batch is what was fetched.
type Batch struct {
	Changes []config.Change
	Tried   bool // each set that is wanted was tried, or the first ones have taken too long
	// Failing is why sets could not be fetched the last time that they were tried: all of them, in each batch.
	Failing map[config.Key]Failure
}

// Failure is that a set cannot be fetched.
type Failure struct {
	URI string
	Err string // in which way, and no more than whoever wants it may know
	// Until is how long those are trusted that were fetched last; zero where there are none.
	Until time.Time
}

// Fetcher keeps sets of keys.
type Fetcher struct {
	Log *slog.Logger
	// Read says what of a set is kept, or what is wrong with it. What it kept it reads as the same.
	Read func(text string) (string, error)
	// Fresh is how long a set is good, and First and Last how long a fetch that failed waits for the next one, at first and at last.
	Fresh, First, Last time.Duration
	// Patience is how long the first sets that are wanted may keep everybody waiting for them.
	Patience time.Duration
	// Oldest is how long a set is trusted that cannot be fetched again, and Folder where sets are kept over a restart; "" for nowhere.
	Oldest time.Duration
	Folder string

	disk    disk
	fetch   func(context.Context, Source, inside.Allowed) (string, error)
	want    chan []Wanted
	batches chan Batch
}

// NewFetcher makes one with the usual times.
func NewFetcher(log *slog.Logger, read func(text string) (string, error)) *Fetcher {
	return &Fetcher{
		Log: log, Read: read, Fresh: 20 * time.Minute, First: time.Second, Last: time.Minute, Patience: patience, Oldest: oldest,
		disk: disk{of: map[string]int{}, sizes: map[config.Key]int{}}, fetch: fetch, want: make(chan []Wanted), batches: make(chan Batch),
	}
}

// Want says which sets are wanted from now on.
func (f *Fetcher) Want(ctx context.Context, all []Wanted) {
	select {
	case f.want <- all:
	case <-ctx.Done():
	}
}

// Batches is what is fetched.
func (f *Fetcher) Batches() <-chan Batch { return f.batches }

// set is one that is wanted.
type set struct {
	Wanted
	due     time.Time
	busy    bool
	tried   bool
	text    string
	fetched time.Time     // when text was
	failing time.Duration // how long it waits after a failure; 0 while it is well
	failed  string        // why
	unkept  bool          // it is too large to be kept beside the others
}

type fetched struct {
	key  config.Key
	of   *set
	text string
	err  error
}

// most is how many sets are fetched at once, and mostOf how many of one namespace: slow issuers of one keep nobody else waiting.
const (
	most   = 32
	mostOf = 4
)

// places are taken by fetches under way, of a namespace and of all.
type places struct {
	all int
	of  map[string]int
}

func (p *places) take(ns string) bool {
	if p.all >= most || p.of[ns] >= mostOf {
		return false
	}
	p.all++
	p.of[ns]++
	return true
}

func (p *places) give(ns string) {
	p.all--
	if p.of[ns]--; p.of[ns] == 0 {
		delete(p.of, ns)
	}
}

// patience and oldest are Fetcher's.
const (
	patience = 10 * time.Second
	oldest   = 24 * time.Hour
)

// Run fetches until ctx ends. It holds what was fetched until somebody takes it.
func (f *Fetcher) Run(ctx context.Context) {
	sets, results := map[config.Key]*set{}, make(chan fetched)
	var held []config.Change
	told, busy := true, places{of: map[string]int{}}
	failing, tidied := map[config.Key]Failure{}, false
	var since time.Time // something was wanted first
	for {
		now := time.Now()
		next := time.Hour
		tried := allTried(sets)
		if left := f.Patience - now.Sub(since); !since.IsZero() && !tried {
			if tried = left <= 0; !tried {
				next = left
			}
		}
		for key, s := range sets {
			if left := f.Oldest - now.Sub(s.fetched); s.text != "" && left > 0 {
				next = min(next, left)
			} else if s.text != "" {
				held = append(held, f.expire(s))
			}
			switch wait := s.due.Sub(now); {
			case s.busy, s.Refused != "":
			case wait > 0:
				next = min(next, wait)
			case busy.take(key.Namespace):
				s.busy = true
				w := s.Wanted // a copy: the set's own changes with what is wanted
				go func() {
					text, err := f.fetch(ctx, w.Source, w.Allowed)
					select {
					case results <- fetched{key, s, text, err}:
					case <-ctx.Done():
					}
				}()
			}
		}
		var out chan Batch
		failures := failuresIn(sets, f.Oldest)
		if len(held) > 0 || tried && !told || !maps.Equal(failures, failing) {
			out = f.batches
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case all := <-f.want:
			held = append(held, f.wanted(sets, all)...)
			if told = false; !tidied {
				f.tidy(all)
				tidied = true
			}
			if since.IsZero() && len(all) > 0 {
				since = time.Now()
			}
		case r := <-results:
			busy.give(r.key.Namespace)
			if sets[r.key] == r.of {
				held = append(held, f.took(r)...)
			}
		case out <- Batch{held, tried, failures}:
			held, told, failing = nil, tried, failures
		case <-timer.C:
		}
		timer.Stop()
	}
}

func allTried(sets map[config.Key]*set) bool {
	for _, s := range sets {
		if !s.tried {
			return false
		}
	}
	return true
}

// failuresIn are those of the sets that failed.
func failuresIn(sets map[config.Key]*set, oldest time.Duration) map[config.Key]Failure {
	out := map[config.Key]Failure{}
	for key, s := range sets {
		if s.failed == "" {
			continue
		}
		x := Failure{URI: s.URI, Err: s.failed}
		if s.text != "" {
			x.Until = s.fetched.Add(oldest)
		}
		out[key] = x
	}
	return out
}

// expire takes back a set that could not be fetched again for too long.
func (f *Fetcher) expire(s *set) config.Change {
	f.Log.Warn("keys for tokens could not be fetched for too long: no token of theirs is good any more", "namespace", s.Key.Namespace, "from", s.URI, "fetched", s.fetched)
	s.text = ""
	f.drop(s.Source)
	return config.Change{Key: s.Key}
}

// wanted makes the sets those that are wanted, and gives those that go, and those that were kept.
func (f *Fetcher) wanted(sets map[config.Key]*set, all []Wanted) (changes []config.Change) {
	now := map[config.Key]bool{}
	for _, w := range all {
		key := w.Key
		now[key] = true
		s := sets[key]
		if s == nil {
			s = &set{}
			sets[key] = s
		}
		isNew, had := s.Key == (config.Key{}), s.text != ""
		if w.Refused == "" && s.Refused != "" {
			isNew, s.failed, s.tried = true, "", false
		}
		s.Wanted = w
		switch {
		case w.Refused != "":
			s.text, s.failed, s.tried = "", w.Refused, true
			f.drop(s.Source)
		case isNew:
			f.restore(s)
		}
		if s.text != "" && !had {
			changes = append(changes, s.change())
		} else if s.text == "" && had {
			changes = append(changes, config.Change{Key: key})
		}
	}
	for key, s := range sets {
		if now[key] {
			continue
		}
		delete(sets, key)
		f.drop(s.Source)
		if s.text != "" {
			changes = append(changes, config.Change{Key: key})
		}
	}
	return changes
}

// took takes what a fetch gave: a set that is another one is a change, and after a failure the last good one stays.
func (f *Fetcher) took(r fetched) []config.Change {
	s := r.of
	if s.busy, s.tried = false, true; s.Refused != "" {
		return nil
	}
	if r.err == nil {
		text, err := f.Read(r.text)
		if r.text = text; err != nil {
			r.err = noKeys.because(err)
		}
	}
	if r.err != nil {
		s.failing = min(max(2*s.failing, f.First), f.Last)
		s.due, s.failed = time.Now().Add(s.failing), reason(r.err)
		f.Log.Warn("keys for tokens cannot be fetched; tokens are verified by those that were fetched last, and without any none is good",
			"namespace", s.Key.Namespace, "from", s.URI, "error", r.err, "fetched", s.text != "", "again", s.failing.String())
		return nil
	}
	now := time.Now()
	s.failing, s.failed, s.due, s.fetched = 0, "", now.Add(f.Fresh), now
	same := s.text == r.text
	s.text = r.text
	f.keep(s)
	if same {
		return nil
	}
	return []config.Change{s.change()}
}

// change is that the set is this one now.
func (s *set) change() config.Change {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(s.text))
	return config.Change{Key: s.Key, Object: &config.Object{Key: s.Key, Origin: s.URI, Spec: s.text, Hash: sum.Sum64()}}
}
