package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// handover is two agents of one node.
type handover struct{ *ambientNode }

// inStep is how many new connections and questions have to succeed between two steps.
const inStep = 150

// handoverDrain is longer than anything here takes: what ends before it did not end by it.
const handoverDrain = 10 * time.Minute

// TestAmbientHandOver holds that a node's agent is replaced by another one while its pods notice nothing: no new connection fails, none that is open
// ends, and every question is answered; and that they go on when either of the two dies.
func TestAmbientHandOver(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	a := &ambientNode{ctx: ctx, scene: s}
	a.serve(t)
	var err error
	if a.node, err = s.AddNode(ctx, "node-1", nodeAddr, "--drain-time", handoverDrain.String()); err != nil {
		t.Fatal(err)
	}
	a.alpha, a.beta = a.pod(t, "alpha", alphaAddr), a.pod(t, "beta", betaAddr)
	polyglot{s.Outside.CA}.serve(t, a.beta.host, a.beta.addr, []uint16{ambientHTTP})
	for _, host := range []string{"mesh.ambient.test", "straight.ambient.test"} {
		a.until(t, a.alpha, host, true)
	}
	h := &handover{ambientNode: a}
	inOrder(t, []part{
		{"a new agent dies, again and again", h.newOneDies},
		{"handed over", h.handedOver},
		{"the old one is killed before the new one is ready", h.oldOneKilled},
	})
}

// successor makes another agent of the node.
func (h *handover) successor(t *testing.T, name string, last byte) *story.Node {
	t.Helper()
	next, err := h.node.Successor(h.ctx, name, netip.AddrFrom4([4]byte{10, 77, 0, last}))
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// newOneDies holds that the old agent serves, and answers for pods, whatever becomes of one that does not get far.
func (h *handover) newOneDies(t *testing.T) {
	kept, err := h.alpha.keep(h.ctx, "mesh.ambient.test", ambientEcho)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	next := h.successor(t, "agent-loop", 70)
	for i, when := range []func() error{
		func() error { return nil },                           // at once
		func() error { return h.hasFile(next, "envoy.json") }, // about when Envoy starts
		func() error { return next.Ready(h.ctx) },             // when it holds the node
	} {
		if err := errors.Join(next.Begin("--drain-time", handoverDrain.String()), world.Within(h.ctx, 2*time.Minute, when), h.kills(next)); err != nil {
			t.Fatal(err)
		}
		// What it had accepted died with it. What is new from here on may not.
		l := h.begin(t)
		l.more(t, inStep)
		l.end(t)
		name := fmt.Sprintf("loop%d", i)
		pod := h.pod(t, name, netip.AddrFrom4([4]byte{10, 77, 0, byte(80 + i)}))
		h.until(t, pod, "mesh.ambient.test", true)
		h.goes(t, pod, name)
	}
	if err := kept.ping(); err != nil {
		t.Errorf("a stream of the old agent's: %v", err)
	}
}

func (h *handover) hasFile(n *story.Node, name string) error {
	_, err := os.Stat(filepath.Join(n.OwnDir(), name))
	return err
}

// goes ends a pod, and holds that nothing is open in its network then.
func (h *handover) goes(t *testing.T, p *ambientPod, name string) {
	t.Helper()
	if err := errors.Join(h.scene.Config.Remove("pod-"+name+".yaml"), h.node.Tell(h.ctx, "remove", p.name, p.host)); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(h.ctx, time.Minute, func() error { return h.opens(p, false) }); err != nil {
		t.Error(err)
	}
}

// handedOver holds that nothing fails from before the new agent begins until the old one has ended, which it does when its last stream has.
func (h *handover) handedOver(t *testing.T) {
	l := h.begin(t)
	l.more(t, inStep)
	kept, err := h.alpha.keep(h.ctx, "mesh.ambient.test", ambientEcho)
	if err != nil {
		t.Fatal(err)
	}
	next := h.successor(t, "agent-next", 71)
	if err := next.Begin("--drain-time", handoverDrain.String()); err != nil {
		t.Fatal(err)
	}
	first := h.pod(t, "during", netip.MustParseAddr("10.77.0.90")) // whoever answers
	h.until(t, first, "mesh.ambient.test", true)
	if err := next.Ready(h.ctx); err != nil {
		t.Fatal(err)
	}
	l.more(t, inStep)
	second := h.pod(t, "beside", netip.MustParseAddr("10.77.0.91"))
	h.until(t, second, "mesh.ambient.test", true)
	h.goes(t, first, "during")

	old := h.node.Process
	ended := make(chan error, 1)
	go func() { ended <- old.Stop(handoverDrain) }()
	l.more(t, 3*inStep)
	if err := errors.Join(old.Running(), kept.ping()); err != nil {
		t.Errorf("a stream of the old agent's, while that drains: %v", err)
	}
	h.goes(t, second, "beside")
	_ = kept.Close()
	if err := <-ended; err != nil {
		t.Errorf("without streams the old agent does not end: %v", err)
	}
	l.more(t, inStep)
	l.end(t)
	h.allRecorded(t, l)
	h.leftNothing(t, h.node)
	h.node = next
}

// allRecorded holds that each request that was answered is in the log once, whichever agent saw it.
func (h *handover) allRecorded(t *testing.T, l *podLoad) {
	t.Helper()
	want := l.done["http straight"]
	if err := world.Within(h.ctx, 2*time.Minute, func() error {
		records, err := h.scene.AuditRecords(h.ctx, "--host", "straight.ambient.test", "--limit", "100000")
		n, by := 0, map[string]int{}
		for _, r := range records {
			if r.Path == record.PathDirect && r.Protocol == "http" && r.Time.After(l.began) {
				n++
				by[r.Proxy]++
			}
		}
		if err == nil && (n != want || len(by) != 2) {
			err = fmt.Errorf("%d records of %d requests, by %v", n, want, by)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// leftNothing holds that the folder of an agent that has ended goes.
func (h *handover) leftNothing(t *testing.T, n *story.Node) {
	t.Helper()
	if err := world.Within(h.ctx, time.Minute, func() error {
		if _, err := os.Stat(n.OwnDir()); !os.IsNotExist(err) {
			return errors.Join(fmt.Errorf("%s is still there", n.OwnDir()), err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// oldOneKilled holds that a new agent does not need an old one to become ready.
func (h *handover) oldOneKilled(t *testing.T) {
	next := h.successor(t, "agent-last", 72)
	if err := errors.Join(next.Begin("--drain-time", handoverDrain.String()), h.kills(h.node)); err != nil {
		t.Fatal(err)
	}
	h.node = next
	if err := next.Ready(h.ctx); err != nil {
		t.Fatal(err)
	}
	l := h.begin(t)
	l.more(t, inStep)
	l.end(t)
	pod := h.pod(t, "later", netip.MustParseAddr("10.77.0.92"))
	h.until(t, pod, "mesh.ambient.test", true)
}

// podLoad is new connections and questions, one after the other in a few threads.
type podLoad struct {
	began  time.Time
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	done   map[string]int // by what was tried
	failed []error
}

// loads are what is tried.
var loads = []string{"http by the gateway", "tls by the gateway", "http straight", "in to another pod", "in from outside of the mesh", "a name"}

// begin begins: out by the gateway and straight, in to another pod and from outside of the mesh, and names. Each has no second try, and the time of a machine that has much
// else to do: what is refused, reset or never answered fails, and what is late does not.
func (h *handover) begin(t *testing.T) *podLoad {
	ctx, cancel := context.WithCancel(h.ctx)
	l := &podLoad{began: time.Now(), cancel: cancel, done: map[string]int{}}
	t.Cleanup(func() { cancel(); l.work.Wait() })
	beside := h.alpha.whileOpen(true)
	beside.host = h.node.Host
	for what, do := range map[string]func(context.Context) error{
		"http by the gateway": func(ctx context.Context) error { return h.reach(ctx, "http", "mesh.ambient.test", ambientHTTP) },
		"tls by the gateway":  func(ctx context.Context) error { return h.reach(ctx, "tls", "mesh.ambient.test", ambientTLS) },
		"http straight":       func(ctx context.Context) error { return h.reach(ctx, "http", "straight.ambient.test", ambientHTTP) },
		"in to another pod":   func(ctx context.Context) error { return h.reach(ctx, "http", betaAddr.String(), ambientHTTP) },
		"in from outside of the mesh": func(ctx context.Context) error {
			_, err := beside.try(ctx, "http", betaAddr.String(), ambientHTTP, "/")
			return err
		},
		"a name": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, leastLimit)
			defer cancel()
			_, err := h.alpha.resolve(ctx, "mesh.ambient.test")
			return err
		},
	} {
		l.work.Go(func() {
			pace := time.NewTicker(5 * time.Millisecond) // so that what is quick leaves room for the rest
			defer pace.Stop()
			for ctx.Err() == nil {
				l.note(ctx, what, do(context.WithoutCancel(ctx)))
				<-pace.C
			}
		})
	}
	return l
}

func (h *handover) reach(ctx context.Context, scheme, host string, port uint16) error {
	_, err := h.alpha.whileOpen(true).try(ctx, scheme, host, port, "/")
	return err
}

func (l *podLoad) note(ctx context.Context, what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = append(l.failed, fmt.Errorf("%s, after %v: %s: %w", time.Now().Format(time.StampMilli), time.Since(l.began), what, err))
		if len(l.failed) > 20 {
			l.cancel()
		}
		return
	}
	l.done[what]++
}

// more waits until each of these was done so many times more.
func (l *podLoad) more(t *testing.T, n int) {
	t.Helper()
	l.mu.Lock()
	begun := map[string]int{}
	for what, n := range l.done {
		begun[what] = n
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), handoverDrain/2)
	defer cancel()
	if err := world.Poll(ctx, 20*time.Millisecond, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, what := range loads {
			if l.done[what] < begun[what]+n && len(l.failed) <= 20 {
				return fmt.Errorf("%s was done %d times", what, l.done[what]-begun[what])
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// end ends it, and says what failed.
func (l *podLoad) end(t *testing.T) {
	t.Helper()
	l.cancel()
	l.work.Wait()
	sum := 0
	for _, n := range l.done {
		sum += n
	}
	t.Logf("%d failed of %d: %v", len(l.failed), sum+len(l.failed), l.done)
	if len(l.failed) > 0 {
		t.Error(errors.Join(l.failed...))
	}
}
