package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/sallyport/sallyport/sidecar/node/cni"
	"github.com/sallyport/sallyport/xds/ambient"
)

// agentOf is a node's agent with a controller that has told all, and an Envoy that took it.
func agentOf(t *testing.T, runDir string) *Pods {
	t.Helper()
	p, err := New(Config{
		Log: slog.New(slog.DiscardHandler), RunDir: runDir, Folder: filepath.Join(runDir, "node"),
		Settled: func() bool { return true }, Warming: func(context.Context) bool { return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Listeners.apply([]*discoveryv3.Resource{{Name: "any", Resource: nil}}, nil)
	p.Listeners.taken = true
	t.Cleanup(p.Leave)
	return p
}

// looks has an agent look once at who holds the node.
func looks(t *testing.T, p *Pods) {
	t.Helper()
	if err := p.look(t.Context(), func(l net.Listener) {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(t.Context(), conn)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func wantHolder(t *testing.T, when string, yes, no *Pods) {
	t.Helper()
	for _, p := range []*Pods{no, yes, no} { // which notices that it is relieved when it looks again
		looks(t, p)
	}
	if !yes.holds || no.holds || !yes.mine() || no.mine() {
		t.Errorf("%s: who should hold the node %t, the other %t", when, yes.holds, no.holds)
	}
}

// TestHandOver: a new agent takes the node when it serves all pods, and not before; the old one takes it back when the new one is gone, and
// knows when it is told to end whether the new one can do without it.
func TestHandOver(t *testing.T) {
	dir := t.TempDir()
	old := agentOf(t, dir)
	looks(t, old)
	if !old.holds || !old.may || old.Elsewhere() {
		t.Fatal("one that is alone does not hold the node")
	}
	network := filepath.Join(t.TempDir(), "network")
	l := Local{Namespace: "shop", Name: "cart-0", UID: "u1", Network: network}
	if err := errors.Join(os.WriteFile(network, nil, 0o600), old.write(l)); err != nil {
		t.Fatal(err)
	}
	next := agentOf(t, dir)
	next.remote[l.Key()] = ambient.Pod{In: true, Namespace: "shop", Name: "cart-0", UID: "u1", Identity: "spiffe://x"}
	if next.local[l.Key()] != l {
		t.Error("what the old one was told is not known to the new one")
	}
	wantHolder(t, "while the new one does not serve a pod", old, next)
	if next.Lacks() == "" {
		t.Error("it is ready before it serves all")
	}
	certified := make(chan struct{})
	close(certified)
	next.served[l.Key()] = &served{local: l, remote: next.remote[l.Key()], ready: certified, opened: true}
	if old.Elsewhere() {
		t.Error("the old one can end before the new one holds the node")
	}
	wantHolder(t, "when it does", next, old)
	if next.Lacks() != "" || !old.Elsewhere() || next.Elsewhere() {
		t.Errorf("the new one lacks %q; the old one can end: %t", next.Lacks(), old.Elsewhere())
	}
	_ = next.letGo() // as if killed: its socket is still there
	wantHolder(t, "when the new one is gone", old, next)

	third := agentOf(t, dir)
	third.remote, third.served = next.remote, next.served
	wantHolder(t, "when a third one came", third, old)
	third.Leave()
	looks(t, third)
	wantHolder(t, "when that is told to end", old, third)
}

// TestNotForEver: a pod that cannot be taken in keeps a new agent from the node for a while only. One that was not tried yet, or whose certificate
// has not come, does as long as that lasts, and so does every one where none can be served that the old one serves.
func TestNotForEver(t *testing.T) {
	broken, certified := errors.New("no rules"), make(chan struct{})
	close(certified)
	for name, c := range map[string]struct {
		next    *served // of the pod, at the new one
		refused bool    // by the new one's Envoy
		none    bool    // the new one serves no other
		old     bool    // the old one serves it
		takes   bool
	}{
		"served":                    {next: &served{ready: certified, opened: true}, takes: true},
		"fails":                     {next: &served{err: broken}, takes: true},
		"fails, and is served":      {next: &served{err: broken}, old: true, takes: true},
		"fails, as all":             {next: &served{err: broken}, none: true, takes: true},
		"fails, as all, but served": {next: &served{err: broken}, none: true, old: true},
		"not tried":                 {},
		"no certificate":            {next: &served{ready: make(chan struct{})}},
		"refused":                   {next: &served{ready: certified, opened: true}, refused: true, takes: true},
		"refused as all":            {next: &served{ready: certified, opened: true}, refused: true, none: true, old: true},
	} {
		dir := t.TempDir()
		old, next := agentOf(t, dir), agentOf(t, dir)
		looks(t, old)
		l, r := knownTo(next, "cart-0")
		knownTo(old, "cart-0")
		if c.next != nil {
			c.next.local, c.next.remote = l, r
			next.served[l.Key()] = c.next
		}
		if c.old { // as far as Check is concerned: it is none that the mesh has to serve
			old.remote[l.Key()] = ambient.Pod{}
		}
		if !c.none {
			other, r := knownTo(next, "web-0")
			next.served[other.Key()] = &served{local: other, remote: r, ready: certified, opened: true}
		}
		if c.refused {
			next.Listeners.taken, next.Listeners.refused = false, map[string]string{l.Key(): "no such cluster"}
		}
		looks(t, next) // which may take pods in from now on
		if name != "served" {
			wantHolder(t, name+", at first", old, next)
		}
		next.since = time.Now().Add(-2 * catchUp)
		if c.takes {
			wantHolder(t, name+", later", next, old)
			if why := next.Lacks(); why != "" {
				t.Errorf("%s: it is not ready: %s", name, why)
			}
		} else {
			wantHolder(t, name+", later", old, next)
		}
	}
}

// TestSucceeded: one that has ended tells whether another one has the node.
func TestSucceeded(t *testing.T) {
	dir := t.TempDir()
	old, next := agentOf(t, dir), agentOf(t, dir)
	looks(t, old)
	old.Leave()
	looks(t, next)
	if !old.Succeeded() {
		t.Error("another one has the node")
	}
	next.Leave()
	if next.Succeeded() {
		t.Error("nobody has the node")
	}
}

// TestAskedOfWhoWasRelieved: who waits for a pod at an agent that another one relieves, or that ends, gets no answer, and asks the other one.
func TestAskedOfWhoWasRelieved(t *testing.T) {
	for name, change := range map[string]func(*Pods){
		"relieved": func(p *Pods) { p.mu.Lock(); p.holds = false; p.asks(); p.mu.Unlock() },
		"ends":     (*Pods).Leave,
	} {
		p := agentOf(t, t.TempDir())
		looks(t, p)
		network := filepath.Join(t.TempDir(), "network")
		if err := os.WriteFile(network, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		l := Local{Namespace: "shop", Name: "cart-0", Network: network}
		answer := make(chan error, 1)
		go func() {
			answer <- cni.Ask(t.Context(), p.cfg.RunDir, cni.Request{Do: cni.Add, Local: l, Patience: mostPatience})
		}()
		eventually(t, "it is asked", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.local[l.Key()] == l })
		change(p)
		select {
		case err := <-answer:
			if !errors.Is(err, cni.ErrAway) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: who asked waits on", name)
		}
	}
}

// TestTakenLater: an agent that has held the node, and cannot take it again, tries until it can; one that never could says so.
func TestTakenLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	p := agentOf(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx) }()
	held := func() bool { return answers(p.socketPath()) }
	eventually(t, "it holds the node", held)
	if err := errors.Join(os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600)); err != nil { // no socket can be put there
		t.Fatal(err)
	}
	eventually(t, "it learns that it does not", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return !p.holds })
	if err := p.look(ctx, nil); err == nil {
		t.Error("it takes the node where no socket can be")
	}
	if err := errors.Join(os.Remove(dir), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it holds the node again", held)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	never := agentOf(t, t.TempDir())
	never.cfg.RunDir = filepath.Join(dir, "nowhere")
	if err := never.Serve(t.Context()); err == nil {
		t.Error("one that never could goes on")
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		runtime.Gosched()
	}
}

// knownTo tells an agent of a pod that is to be served.
func knownTo(p *Pods, name string) (Local, ambient.Pod) {
	l, r := Local{Namespace: "shop", Name: name, Network: "/nowhere"}, ambient.Pod{In: true, Namespace: "shop", Name: name}
	p.local[l.Key()], p.remote[l.Key()] = l, r
	return l, r
}

// TestSharedPods: what one agent of the node is told of pods the other one learns.
func TestSharedPods(t *testing.T) {
	dir := t.TempDir()
	a, b := agentOf(t, dir), agentOf(t, dir)
	changes, end := b.changes()
	defer end()
	l := Local{Namespace: "shop", Name: "cart-0", Network: "/run/netns/a"}
	for _, step := range []struct {
		what string
		do   func() error
		want Local
	}{
		{"one comes", func() error { return a.write(l) }, l},
		{"another of its name", func() error { l.Network = "/run/netns/b"; return a.write(l) }, Local{Namespace: "shop", Name: "cart-0", Network: "/run/netns/b"}},
		{"it goes", func() error { return os.Remove(a.file(l)) }, Local{}},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.After(time.Minute); b.local[l.Key()] != step.want; {
			select {
			case e := <-changes:
				b.readChanged(e, changes)
			case <-deadline:
				t.Fatalf("%s: %+v", step.what, b.local)
			}
		}
	}
	if b.readPods() {
		t.Error("nothing changed")
	}
}

// TestFolders: an agent's folder is its own while it runs; then its records are handed in by another one, and it is removed.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	own, _, err := Claim(t.Context(), dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	left, release, err := Claim(t.Context(), dir, "b")
	if err != nil {
		t.Fatal(err)
	}
	p := agentOf(t, dir)
	fails, asked := errors.New("no controller"), ""
	p.cfg.HandIn = func(_ context.Context, folder string) error { asked = folder; return fails }
	for _, folder := range []string{own, left} {
		if err := p.handIn(t.Context(), folder); !errors.Is(err, ErrTaken) || asked != "" {
			t.Errorf("%s: %v, of one that runs", folder, err)
		}
	}
	release()
	if err := p.handIn(t.Context(), left); !errors.Is(err, fails) || asked != left {
		t.Errorf("handed in %q: %v", asked, err)
	}
	if _, err := os.Stat(left); err != nil {
		t.Error("what is not handed in is removed")
	}
	fails = nil
	if err := p.handIn(t.Context(), left); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Error("the folder stays")
	}
	if err := errors.Join(p.handInEarlier(t.Context()), os.MkdirAll(filepath.Join(dir, "spool"), 0o700)); err != nil || asked != left {
		t.Errorf("nobody was there before: %q, %v", asked, err)
	}
	if err := p.handInEarlier(t.Context()); err != nil || asked != dir {
		t.Errorf("of an earlier release, %q: %v", asked, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "spool")); !os.IsNotExist(err) {
		t.Error("the spool of an earlier release stays")
	}
	if _, _, err := Claim(t.Context(), dir, "b"); err != nil {
		t.Errorf("one of that name cannot come back: %v", err)
	}
}

// TestChoose: of two sockets on one port the first is asked until the second is chosen, and when that is closed, the first again.
func TestChoose(t *testing.T) {
	shared := net.ListenConfig{Control: sharePort}
	open := func(addr string) *net.UDPConn {
		c, err := shared.ListenPacket(t.Context(), "udp4", addr)
		if err != nil {
			t.Fatal(err)
		}
		return c.(*net.UDPConn)
	}
	first := open("127.0.0.1:0")
	defer func() { _ = first.Close() }()
	shared.SetMultipathTCP(false)
	stream, err := shared.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if err := chooseOf(stream.(*net.TCPListener), 1); err != nil {
		t.Errorf("of TCP: %v", err)
	}
	ask := func(who string, by *net.UDPConn) {
		t.Helper()
		for range 50 { // each from a port of its own
			client, err := net.Dial("udp4", first.LocalAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Write([]byte("?")); err != nil {
				t.Fatal(err)
			}
			_ = by.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := by.Read(make([]byte, 1)); err != nil {
				t.Fatalf("the %s is not asked: %v", who, err)
			}
			_ = client.Close()
		}
	}
	choose := func(c *net.UDPConn, which uint32) {
		t.Helper()
		if err := chooseOf(c, which); err != nil {
			t.Fatal(err)
		}
	}
	choose(first, 1)
	ask("first, which is alone,", first)
	second := open(first.LocalAddr().String())
	choose(second, 0)
	ask("first", first)
	choose(second, 1)
	ask("second", second)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	ask("first", first)
	third := open(first.LocalAddr().String())
	defer func() { _ = third.Close() }()
	choose(third, 0)
	ask("first", first)
	choose(third, 1)
	ask("third", third)
}
