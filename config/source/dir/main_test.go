package dir

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

// batch is one call of out.
type batch struct {
	changes  []config.Change
	findings []admission.Finding
}

// running is a source at work on a directory of its own.
type running struct {
	*Source
	t       *testing.T
	root    string
	batches chan batch
	state   map[config.Key]string // the hosts of each ServiceEntry
	heard   []string              // all findings, as What
	log     *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a source on root and takes its first batch.
func start(t *testing.T, root string, rescan time.Duration) *running {
	t.Helper()
	r := &running{t: t, root: root, batches: make(chan batch, 1000), state: map[config.Key]string{}, log: &lockedBuffer{}}
	r.Source = New(root, Options{
		Logger: slog.New(slog.NewTextHandler(r.log, nil)), Debounce: 10 * time.Millisecond, MaxHoldOff: 100 * time.Millisecond, Rescan: rescan,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- r.Run(ctx, func(c []config.Change, f []admission.Finding) { r.batches <- batch{c, f} })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	r.next()
	select {
	case <-r.Synced():
	case <-time.After(patience):
		t.Fatal("not synced after the first batch")
	}
	return r
}

// next takes one batch.
func (r *running) next() batch {
	r.t.Helper()
	select {
	case b := <-r.batches:
		for _, c := range b.changes {
			if c.Object == nil {
				delete(r.state, c.Key)
			} else if se, ok := c.Object.Spec.(*networking.ServiceEntry); ok {
				r.state[c.Key] = strings.Join(se.Hosts, ",")
			} else {
				r.state[c.Key] = "-"
			}
		}
		for _, f := range b.findings {
			r.heard = append(r.heard, f.String())
		}
		return b
	case <-time.After(patience):
		r.t.Fatalf("nothing came; the state is %v, the log\n%s", r.state, r.log)
		return batch{}
	}
}

// until takes batches until the state is the wanted one: "name=hosts" of each object, sorted.
func (r *running) until(want ...string) {
	r.t.Helper()
	for !slices.Equal(r.now(), want) {
		r.next()
	}
}

// untilFinding takes batches until a finding with that text was heard.
func (r *running) untilFinding(text string) {
	r.t.Helper()
	for !slices.ContainsFunc(r.heard, func(f string) bool { return strings.Contains(f, text) }) {
		r.next()
	}
}

func (r *running) now() []string {
	now := []string{}
	for k, v := range r.state {
		now = append(now, k.Name+"="+v)
	}
	slices.Sort(now)
	return now
}

func (r *running) write(name, text string) { write(r.t, filepath.Join(r.root, name), text) }

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// entry is a ServiceEntry's YAML.
func entry(name, host string) string {
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s}\nspec:\n  hosts: [%q]\n  ports: [{number: 443, name: tls, protocol: TLS}]\n  resolution: DNS\n---\n", name, host)
}
