package node

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/sallyport/sallyport/xds/ambient"
)

// podsWith are a node's, one of which is served.
func podsWith(t *testing.T) (*Pods, Local) {
	t.Helper()
	p, err := New(Config{Log: slog.New(slog.DiscardHandler), Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	l := Local{Namespace: "shop", Name: "cart-0", UID: "u1", Network: filepath.Join(t.TempDir(), "network")}
	if err := os.WriteFile(l.Network, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := link(p.path("networks"), l)
	if err != nil {
		t.Fatal(err)
	}
	r := ambient.Pod{In: true, Namespace: "shop", Name: "cart-0", UID: "u1", Identity: "spiffe://x"}
	p.local[l.Key()], p.remote[l.Key()] = l, r
	certified := make(chan struct{})
	close(certified)
	p.served[l.Key()] = &served{local: l, remote: r, network: path, ready: certified, opened: true}
	p.holder = holder{may: true, has: true, holds: true}
	return p, l
}

// TestWhoIsLetOut: the mesh's rules go when the controller says that a pod is not the mesh's. Who is deleted, or another one by now, may still
// run, and stays closed.
func TestWhoIsLetOut(t *testing.T) {
	for name, c := range map[string]struct {
		change          func(*Pods, Local)
		ends, out, gone bool
	}{
		"nothing":                {func(*Pods, Local) {}, false, false, false},
		"a label":                {func(p *Pods, l Local) { p.remote[l.Key()] = ambient.Pod{UID: "u1"} }, true, true, false},
		"deleted":                {func(p *Pods, l Local) { delete(p.remote, l.Key()) }, true, false, false},
		"another of its name":    {func(p *Pods, l Local) { p.remote[l.Key()] = ambient.Pod{UID: "u2"} }, true, false, false},
		"what cannot be done":    {func(p *Pods, l Local) { p.remote[l.Key()] = ambient.Pod{In: true, UID: "u1", Why: "x"} }, true, false, false},
		"gone from the node":     {func(p *Pods, l Local) { delete(p.local, l.Key()) }, true, false, true},
		"its network is no more": {func(_ *Pods, l Local) { _ = os.Remove(l.Network) }, true, false, true},
	} {
		p, l := podsWith(t)
		c.change(p, l)
		begin, _, end := p.differs()
		if len(begin) != 0 || (len(end) == 1) != c.ends || len(end) == 1 && (end[0].letOut != c.out || end[0].gone != c.gone) {
			t.Errorf("%s: begin %v, end %+v", name, begin, end)
		}
	}
}

// TestLeftByAnEarlierAgent: who was served before and has left the mesh since is let out; who is in it is served again; who was never served is
// not touched.
func TestLeftByAnEarlierAgent(t *testing.T) {
	p, l := podsWith(t)
	clear(p.served)
	if begin, _, end := p.differs(); len(begin) != 1 || len(end) != 0 {
		t.Errorf("in the mesh: begin %v, end %v", begin, end)
	}
	p.remote[l.Key()] = ambient.Pod{UID: "u1"}
	p.looks.add(l.Key())
	if begin, _, end := p.differs(); len(begin) != 0 || len(end) != 1 || !end[0].letOut {
		t.Errorf("out of it: begin %v, end %v", begin, end)
	}
	p.unlink(Local{Namespace: "shop-1", Name: "cart-0"})
	if _, there := p.linked(l); !there {
		t.Error("the path of another pod's network is removed")
	}
	p.unlink(l)
	p.looks.add(l.Key())
	if begin, _, end := p.differs(); len(begin)+len(end) != 0 {
		t.Errorf("never served: begin %v, end %v", begin, end)
	}
}

// TestOtherTemplates: a pod that something else is about now is served on, with other listeners.
func TestOtherTemplates(t *testing.T) {
	p, l := podsWith(t)
	r := p.remote[l.Key()]
	r.Templates = map[string][]byte{ambient.PodTunnel: {1}}
	p.remote[l.Key()] = r
	begin, change, end := p.differs()
	if len(begin)+len(end) != 0 || len(change) != 1 || change[0].door().templates[ambient.PodTunnel] == nil {
		t.Errorf("begin %v, change %v, end %v", begin, change, end)
	}
	if _, again, _ := p.differs(); len(again) != 0 {
		t.Errorf("changed twice: %v", again)
	}
}

// TestRelieved: an agent that another one relieved takes nobody in, and lets go who is gone.
func TestRelieved(t *testing.T) {
	late, _ := podsWith(t)
	late.holds = false
	clear(late.served)
	if begin, _, end := late.differs(); len(begin)+len(end) != 0 {
		t.Errorf("begin %v, end %v", begin, end)
	}
	p, l := podsWith(t)
	p.holds = false
	delete(p.local, l.Key())
	if begin, _, end := p.differs(); len(begin) != 0 || len(end) != 1 {
		t.Errorf("gone: begin %v, end %v", begin, end)
	}
	p, l = podsWith(t)
	p.holder = holder{may: true}
	if err := errors.Join(p.write(l), os.Remove(l.Network)); err != nil {
		t.Fatal(err)
	}
	if begin, _, end := p.differs(); len(begin) != 0 || len(end) != 1 {
		t.Errorf("its network is no more: begin %v, end %v", begin, end)
	}
	if _, err := os.Stat(p.file(l)); err != nil {
		t.Errorf("what the holder knows of a pod, or of the next one of its name, is removed: %v", err)
	}
}

// TestLetOutMeanwhile: a pod that is let out as an agent takes it in is not; and where the rules had been written, who holds the node is told by the
// link, though it had let the pod out before.
func TestLetOutMeanwhile(t *testing.T) {
	p, l := podsWith(t)
	s := p.served[l.Key()]
	delete(p.served, l.Key())
	p.remote[l.Key()] = ambient.Pod{UID: "u1"}
	if err := p.begin(t.Context(), &served{local: l, remote: s.remote}); !errors.Is(err, errLetOut) {
		t.Errorf("it is taken in: %v", err)
	}
	p.remote[l.Key()] = ambient.Pod{UID: "u2"}
	if err := p.wanted(&served{local: l, remote: s.remote}); err != nil {
		t.Errorf("that another one of its name is let out is no reason: %v", err)
	}
	p.holds = false
	for _, ruled := range []bool{false, true} {
		p.unlink(l)
		p.end(t.Context(), ending{&served{local: l, remote: s.remote, network: s.network, ruled: ruled}, true, false})
		if _, linked := p.linked(l); linked != ruled {
			t.Errorf("it wrote rules %t, and is linked %t", ruled, linked)
		}
	}
}

// TestTriedAgain: a pod that cannot be taken in is tried again later each time, and after those that were not tried as often.
func TestTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := podsWith(t)
		s := &served{local: l, remote: p.remote[l.Key()], err: errors.New("no lock")}
		for range 2 {
			s.fail()
		}
		p.served[l.Key()] = s
		if begin, _, _ := p.differs(); len(begin) != 0 {
			t.Error("it is tried again at once")
		}
		time.Sleep(2 * repair)
		fresh := Local{Namespace: "shop", Name: "a-new-one", Network: l.Network}
		p.local[fresh.Key()], p.remote[fresh.Key()] = fresh, ambient.Pod{In: true}
		begin, _, _ := p.differs()
		if len(begin) != 2 || begin[0].local != fresh || begin[1].failures != 2 {
			t.Errorf("tried: %+v", begin)
		}
		for range 100 {
			s.fail()
		}
		if wait := time.Until(s.again); wait != againSlowest {
			t.Errorf("it waits %s at most", wait)
		}
	})
}

// TestCertificateFirst: the listeners of a pod wait for its certificate.
func TestCertificateFirst(t *testing.T) {
	p, l := podsWith(t)
	ready := make(chan struct{})
	p.served[l.Key()].opened, p.served[l.Key()].ready = false, ready
	if _, change, _ := p.differs(); len(change) != 0 {
		t.Errorf("opened without a certificate: %v", change)
	}
	close(ready)
	if _, change, _ := p.differs(); len(change) != 1 || !change[0].opened {
		t.Errorf("not opened with it: %v", change)
	}
}

// TestFind: only a pod of the mesh that nobody told of is taken from what the runtime keeps, by its uid.
func TestFind(t *testing.T) {
	p, l := podsWith(t)
	p.cfg.Found = t.TempDir()
	if err := os.WriteFile(filepath.Join(p.cfg.Found, "x"), []byte(`{`+args+`, "netns": "`+l.Network+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		remote ambient.Pod
		want   bool
	}{
		"in the mesh":         {ambient.Pod{In: true, UID: "u1"}, true},
		"not in it":           {ambient.Pod{UID: "u1"}, false},
		"another of its name": {ambient.Pod{In: true, UID: "u2"}, false},
		"not to be served":    {ambient.Pod{In: true, UID: "u1", Why: "x"}, false},
	} {
		clear(p.local)
		p.remote[l.Key()] = c.remote
		if p.find(); (p.local[l.Key()] == l) != c.want {
			t.Errorf("%s: %v", name, p.local)
		}
	}
}

// TestStatus: who is in the mesh is told of, and why one is not served; who is not in it is not.
func TestStatus(t *testing.T) {
	p, l := podsWith(t)
	p.remote["a/out"] = ambient.Pod{Namespace: "a", Name: "out"}
	p.remote["a/far"] = ambient.Pod{Namespace: "a", Name: "far", In: true}
	p.remote["a/odd"] = ambient.Pod{Namespace: "a", Name: "odd", In: true, Why: "it is odd"}
	p.served[l.Key()].err = errors.New("no rules")
	want := []State{{"a/far", "where its network is, is not known"}, {"a/odd", "it is odd"}, {"shop/cart-0", "no rules"}}
	if got := p.Status().([]State); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestOnePodIsLookedAt: of pods of which nobody said anything no network is looked at, nor a file read, until it is time to look at all.
func TestOnePodIsLookedAt(t *testing.T) {
	p, l := podsWith(t)
	other := Local{Namespace: "shop", Name: "cart-1", Network: l.Network}
	p.local[other.Key()], p.remote[other.Key()] = other, ambient.Pod{}
	p.differs() // all, at first
	if err := errors.Join(os.Remove(l.Network), p.write(l)); err != nil {
		t.Fatal(err)
	}
	for name, look := range map[string]func(){"nothing": func() {}, "another one": func() { p.looks.add(other.Key()) }} {
		look()
		if _, _, end := p.differs(); len(end) != 0 || p.local[l.Key()] != l {
			t.Errorf("%s was said, and %v is looked at", name, end)
		}
	}
	if p.readChanged(fsnotify.Event{Name: p.file(other)}, nil) || len(p.files) != 0 {
		t.Errorf("%v was read", p.files)
	}
	if p.readChanged(fsnotify.Event{Name: p.file(l) + ".new"}, nil) || len(p.files) != 0 {
		t.Errorf("what is not written yet was read: %v", p.files)
	}
	p.lookAtAll()
	if _, _, end := p.differs(); len(end) != 1 || end[0].local != l {
		t.Errorf("at all: %v", end)
	}
}
