package kube

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) {
	leaks.Verify(m,
		goleak.IgnoreAnyFunction("github.com/sallyport/sallyport/e2e/world.startForever"),
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// batch is one call of out.
type batch struct {
	changes  []config.Change
	findings []admission.Finding
}

// running is a source at work.
type sourceAtWork struct {
	*Source
	t       *testing.T
	batches chan batch
	state   map[config.Key]*config.Object
	heard   []string // all findings
	seen    int      // changes so far
	log     *lockedBuffer
	stop    func()
	mu      sync.Mutex
	judged  map[config.Key]Assessment
}

// faults are findings but for those that say of a whole kind that nothing is programmed by it.
func faults(findings []admission.Finding) []admission.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f admission.Finding) bool { return f.Field == "kind" && f.Severity == admission.Warning })
}

func (r *sourceAtWork) faults() []admission.Finding { return faults(r.Findings()) }

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if os.Getenv("SOURCE_TEST_LOG") != "" {
		_, _ = os.Stderr.Write(p)
	}
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startSource runs a source; it takes no batch.
func startSource(t *testing.T, access *rest.Config, o Options) *sourceAtWork {
	t.Helper()
	r := &sourceAtWork{
		t: t, batches: make(chan batch, 1000), state: map[config.Key]*config.Object{}, log: &lockedBuffer{},
		judged: map[config.Key]Assessment{},
	}
	level := slog.LevelInfo
	if os.Getenv("SOURCE_TEST_LOG") != "" {
		level = -10
	}
	o.Logger = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: level}))
	judged := o.Judged
	o.Judged = func(all []Assessment) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, j := range all {
			r.judged[j.Key] = j
		}
		if judged != nil {
			judged(all)
		}
	}
	r.Source = New(access, o)
	r.retries = wait.Backoff{Duration: 100 * time.Millisecond, Cap: time.Second, Steps: 20, Factor: 2, Jitter: 0.5}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- r.Run(ctx, func(c []config.Change, f []admission.Finding) { r.batches <- batch{c, f} })
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(r.stop)
	return r
}

// next takes one batch.
func (r *sourceAtWork) next() batch {
	r.t.Helper()
	select {
	case b := <-r.batches:
		r.take(b)
		return b
	case <-time.After(patience):
		r.t.Fatalf("nothing came; the log:\n%s", r.log)
		return batch{}
	}
}

func (r *sourceAtWork) take(b batch) {
	r.t.Helper()
	if !slices.IsSortedFunc(b.changes, func(a, b config.Change) int { return a.Key.Compare(b.Key) }) {
		r.t.Errorf("a batch is not in order: %v", b.changes)
	}
	r.seen += len(b.changes)
	for _, c := range b.changes {
		if c.Object == nil {
			delete(r.state, c.Key)
		} else {
			r.state[c.Key] = c.Object
		}
	}
	for _, f := range b.findings {
		r.heard = append(r.heard, f.String())
	}
}

// until takes batches until the ServiceEntries of a namespace are the wanted ones: "name=hosts", sorted.
func (r *sourceAtWork) until(ns string, want ...string) {
	r.t.Helper()
	for !slices.Equal(r.entries(ns), want) {
		select {
		case b := <-r.batches:
			r.take(b)
		case <-time.After(patience):
			r.t.Fatalf("the entries are %v, not %v; the log:\n%s", r.entries(ns), want, r.log)
		}
	}
}

// untilFinding takes batches until a finding with that text was heard.
func (r *sourceAtWork) untilFinding(text string) {
	r.t.Helper()
	for !slices.ContainsFunc(r.heard, func(f string) bool { return strings.Contains(f, text) }) {
		r.next()
	}
}

func (r *sourceAtWork) entries(ns string) []string {
	now := []string{}
	for k, o := range r.state {
		if k.Kind == config.KindServiceEntry && k.Namespace == ns {
			now = append(now, k.Name+"="+strings.Join(o.Spec.(*networking.ServiceEntry).Hosts, ","))
		}
	}
	slices.Sort(now)
	return now
}

func (r *sourceAtWork) judgement(key config.Key) Assessment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.judged[key]
}

// eventually polls for what another process brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to be that %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
