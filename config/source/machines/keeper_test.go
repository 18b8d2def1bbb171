package machines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/machine"
)

// shelf is a Store that notes what it was asked for.
type shelf struct {
	stands map[string]string // entry → why it is no endpoint
	calls  []string
	fail   error
}

func (s *shelf) Put(_ context.Context, e Entry) error {
	if s.fail != nil {
		return s.fail
	}
	s.stands[e.Object.Name] = e.Object.Out
	s.calls = append(s.calls, "put "+e.Object.Name)
	return nil
}

func (s *shelf) Remove(_ context.Context, e Entry) error {
	if s.fail != nil {
		return s.fail
	}
	delete(s.stands, e.Key().Name)
	s.calls = append(s.calls, "remove "+e.Key().Name)
	return nil
}

// lab is a keeper with a clock of its own.
type lab struct {
	*Keeper
	shelf *shelf
	clock time.Time
}

func newLab(groups ...*config.Object) *lab {
	l := &lab{shelf: &shelf{stands: map[string]string{}}, clock: time.Unix(1_700_000_000, 0)}
	l.Keeper = New(slog.New(slog.DiscardHandler), l.shelf)
	l.now = func() time.Time { return l.clock }
	for _, g := range groups {
		l.Apply([]config.Change{{Key: g.Key, Object: g}})
	}
	return l
}

// after lets time pass, with everything done that falls due.
func (l *lab) after(d time.Duration) {
	l.settle(context.Background())
	l.clock = l.clock.Add(d)
	l.settle(context.Background())
}

// settle does what is due, one after the other.
func (l *lab) settle(ctx context.Context) {
	for works := l.due(); len(works) > 0; works = l.due() {
		for _, w := range works {
			l.do(ctx, w)
		}
	}
}

func group(ns, name, account string, probe bool) *config.Object {
	g := &networking.WorkloadGroup{
		Metadata: &networking.WorkloadGroup_ObjectMeta{Labels: map[string]string{"app": "db"}, Annotations: map[string]string{"team": "data"}},
		Template: &networking.WorkloadEntry{ServiceAccount: account, Ports: map[string]uint32{"pg": 5432}, Weight: 3, Network: "site"},
	}
	if probe {
		g.Probe = &networking.ReadinessProbe{HealthCheckMethod: &networking.ReadinessProbe_TcpSocket{TcpSocket: &networking.TCPHealthCheckConfig{Port: 5432}}}
	}
	return &config.Object{Key: config.Key{Kind: config.KindWorkloadGroup, Namespace: ns, Name: name}, Spec: g}
}

func proxy(address string) machine.Proxy {
	a := netip.MustParseAddr(address)
	return machine.Proxy{Namespace: "shop", Account: "db", Source: a, Group: "db", Host: "vm", Address: a}
}

func (l *lab) join(t *testing.T, p machine.Proxy) {
	t.Helper()
	if _, err := l.Admit(p); err != nil {
		t.Fatal(err)
	}
	l.Came(p)
}

// TestMachineComesAndGoes: an entry stands while a stream is there, and for the grace time after the last one.
func TestMachineComesAndGoes(t *testing.T) {
	l := newLab(group("shop", "db", "db", false))
	p := proxy("192.0.2.7")
	const name = "db-192.0.2.7"
	l.join(t, p)
	l.join(t, p) // the next stream comes before the last one is known to be over
	l.Went(p)
	l.after(time.Hour)
	if _, there := l.shelf.stands[name]; !there {
		t.Fatal("an entry went while its proxy was connected")
	}
	l.Went(p)
	l.after(Grace - time.Millisecond)
	if _, there := l.shelf.stands[name]; !there {
		t.Fatal("an entry went before its grace was over")
	}
	l.join(t, p)
	l.after(time.Hour)
	if _, there := l.shelf.stands[name]; !there {
		t.Fatal("an entry went though its proxy came back in time")
	}
	l.Went(p)
	l.after(Grace)
	if len(l.shelf.stands) > 0 || len(l.machines) > 0 || len(l.of) > 0 {
		t.Errorf("left: %v, %v, %v", l.shelf.stands, l.machines, l.of)
	}
	l.Went(p) // nobody is counted twice
}

// TestStoreFails: what could not be done is done later, in the state of then.
func TestStoreFails(t *testing.T) {
	l := newLab(group("shop", "db", "db", false))
	l.shelf.fail = errors.New("away")
	l.join(t, proxy("192.0.2.7"))
	l.after(retry)
	l.Went(proxy("192.0.2.7"))
	l.after(Grace)
	l.join(t, proxy("192.0.2.7"))
	l.shelf.fail = nil
	l.after(2 * retry)
	if !slices.Equal(l.shelf.calls, []string{"put db-192.0.2.7"}) {
		t.Error(l.shelf.calls)
	}
}

// TestHealth: an entry of a group with a probe is an endpoint once that has succeeded, and while it does.
func TestHealth(t *testing.T) {
	l := newLab(group("shop", "db", "db", true))
	p := proxy("192.0.2.7")
	l.join(t, p)
	steps := []struct {
		do  func()
		out string
	}{
		{func() {}, "not succeeded yet"},
		{func() { l.Tell(p, Health{Known: true, Well: true}) }, ""},
		{func() { l.Tell(p, Health{Known: true, Why: "refused"}) }, "its probe fails: refused"},
		{func() { l.Went(p); l.Came(p) }, "its probe fails: refused"},
		{func() { l.Tell(p, Health{Known: true, Well: true}) }, ""},
		{func() { l.Went(p); l.Came(p) }, ""},
	}
	for i, s := range steps {
		s.do()
		l.after(pause)
		if out := l.shelf.stands["db-192.0.2.7"]; out != s.out && (s.out == "" || !strings.Contains(out, s.out)) {
			t.Errorf("step %d: %q, want %q", i, out, s.out)
		}
	}
	was := len(l.shelf.calls)
	l.Tell(p, Health{Known: true, Well: true})
	if l.after(pause); len(l.shelf.calls) != was {
		t.Error("the same health was written again")
	}
}

// TestProbeIsReplaced: what a probe said is forgotten with it, and the next one takes nobody out before it has failed itself.
func TestProbeIsReplaced(t *testing.T) {
	l := newLab(group("shop", "db", "db", true))
	p := proxy("192.0.2.7")
	const name = "db-192.0.2.7"
	l.join(t, p)
	l.Tell(p, Health{Known: true, Why: "refused"})
	l.after(pause)
	set := func(probe bool) {
		g := group("shop", "db", "db", probe)
		l.Apply([]config.Change{{Key: g.Key, Object: g}})
		l.after(pause)
	}
	if l.shelf.stands[name] == "" {
		t.Fatal("it is served though its probe fails")
	}
	set(false)
	if out := l.shelf.stands[name]; out != "" {
		t.Errorf("without a probe: %s", out)
	}
	l.Tell(p, Health{Known: true, Why: "refused"}) // an agent that comes back says what it said
	l.after(pause)
	set(true)
	if out := l.shelf.stands[name]; out != "" {
		t.Errorf("with another probe, which has said nothing: %s", out)
	}
	l.Tell(p, Health{Known: true, Why: "timed out"})
	if l.after(pause); l.shelf.stands[name] == "" {
		t.Error("it is served though the other probe fails")
	}
}

// TestGroupChanges: machines follow their group, and a probe that is new takes nobody out before it has failed.
func TestGroupChanges(t *testing.T) {
	l := newLab(group("shop", "db", "db", false))
	p := proxy("192.0.2.7")
	l.join(t, p)
	l.after(pause)
	next := group("shop", "db", "db", true)
	next.Spec.(*networking.WorkloadGroup).Metadata.Labels["tier"] = "gold"
	l.Apply([]config.Change{{Key: next.Key, Object: next}})
	l.after(pause)
	labels, ok := l.Labels(p)
	if out, there := l.shelf.stands["db-192.0.2.7"]; !there || out != "" || !ok || labels["tier"] != "gold" {
		t.Errorf("%v %q, labels %v", there, out, labels)
	}
	other := group("shop", "db", "other", true)
	l.Apply([]config.Change{{Key: other.Key, Object: other}})
	if l.after(pause); len(l.shelf.stands) > 0 {
		t.Error("a machine of an account that is the group's no more stays")
	}
	if _, ok := l.Labels(p); ok {
		t.Error("it has labels of the group")
	}
	l.Apply([]config.Change{{Key: next.Key, Object: next}})
	if l.after(pause); len(l.shelf.stands) != 1 {
		t.Error("a machine does not come back with its group")
	}
	l.Apply([]config.Change{{Key: next.Key}})
	if l.after(pause); len(l.shelf.stands) > 0 {
		t.Error("a machine outlives its group")
	}
	if _, err := l.Admit(p); !errors.As(err, new(NoGroup)) {
		t.Error(err)
	}
}

// TestOthersEntries: what somebody wrote by hand is neither replaced nor removed.
func TestOthersEntries(t *testing.T) {
	l := newLab(group("shop", "db", "db", false))
	p := proxy("192.0.2.7")
	other := &config.Object{Key: p.Key(), Origin: "file", Spec: &networking.WorkloadEntry{Address: "192.0.2.9"}}
	l.Apply([]config.Change{{Key: other.Key, Object: other}})
	if _, err := l.Admit(p); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Error(err)
	}
	l.Apply([]config.Change{{Key: other.Key}})
	l.join(t, p)
	l.after(pause)
	l.Apply([]config.Change{{Key: other.Key, Object: other}})
	l.after(time.Hour)
	l.settle(t.Context())
	if d := l.next(); d <= 0 {
		t.Errorf("what is somebody else's is looked at again after %v", d)
	}
	calls := len(l.shelf.calls)
	l.Apply([]config.Change{{Key: other.Key}})
	if l.after(pause); len(l.shelf.calls) != calls+1 || calls != 1 {
		t.Errorf("%v: want one put before the other came, and one after it went", l.shelf.calls)
	}
}

// TestNamesake: an entry's name does not say whose it is, and nobody takes another machine's by it.
func TestNamesake(t *testing.T) {
	l := newLab(group("shop", "db", "db", false), group("shop", "db-2001", "web", false))
	first := proxy("2001:db8::7")
	l.join(t, first)
	second := proxy("db8::7")
	second.Group, second.Account = "db-2001", "web"
	if first.Key() != second.Key() {
		t.Fatalf("%s, %s", first.Key(), second.Key())
	}
	if _, err := l.Admit(second); err == nil || !strings.Contains(err.Error(), "is that of the machine 2001:db8::7") {
		t.Error(err)
	}
	l.Came(second)
	l.Tell(second, Health{Known: true})
	l.Went(second)
	l.after(time.Hour)
	if h := l.machines[first.Key()]; h == nil || h.Proxy.Account != "db" || h.Health.Known || len(l.shelf.stands) != 1 {
		t.Errorf("%+v", h)
	}
}

// TestOfAnotherControlPlane: entries of machines that another control plane keeps, or that are written in files, are others', whatever they say.
func TestOfAnotherControlPlane(t *testing.T) {
	p := proxy("192.0.2.7")
	for what, c := range map[string]struct{ replica, holder string }{
		"Istio's":  {machine.Holder("istio-system", "me"), "istiod-7d"},
		"a file's": {"", machine.Holder("istio-system", "me")},
	} {
		l := newLab(group("shop", "db", "db", false))
		l.Replica, l.Alive = c.replica, func(string, string) bool { return false }
		o, err := machine.Entry(group("shop", "db", "db", false), p)
		if err != nil {
			t.Fatal(err)
		}
		o.Origin = "elsewhere"
		o.Annotations["istio.io/workloadController"], o.Annotations["istio.io/disconnectedAt"] = c.holder, "2030-01-01T00:00:00Z"
		l.Apply([]config.Change{{Key: o.Key, Object: o}})
		l.after(Patience)
		l.after(Patience)
		if len(l.shelf.calls) > 0 {
			t.Errorf("%s: %v", what, l.shelf.calls)
		}
		if _, err := l.Admit(p); err == nil || !strings.Contains(err.Error(), "is there already") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestUnsteady: a machine that changes its mind is written now and then, as it is by then.
func TestUnsteady(t *testing.T) {
	l := newLab(group("shop", "db", "db", true))
	p := proxy("192.0.2.7")
	l.join(t, p)
	for i := range 1000 {
		l.Tell(p, Health{Known: true, Well: i%2 == 1})
		l.after(time.Millisecond)
	}
	l.after(pause)
	if n := len(l.shelf.calls); n > 5 || l.shelf.stands["db-192.0.2.7"] != "" {
		t.Errorf("%d writes, at last %q", n, l.shelf.stands["db-192.0.2.7"])
	}
}

// TestBoundedGroup: a group has so many machines and no more, and what one gave back another may have.
func TestBoundedGroup(t *testing.T) {
	l := newLab(group("shop", "db", "db", false), group("shop", "more", "db", false))
	at := func(i int) machine.Proxy { return proxy(fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250)) }
	for i := range Most {
		l.join(t, at(i))
	}
	if _, err := l.Admit(at(Most)); err == nil {
		t.Fatal("one too many")
	}
	if _, err := l.Admit(at(0)); err != nil {
		t.Error("one that is there already: ", err)
	}
	elsewhere := at(Most)
	elsewhere.Group = "more"
	l.join(t, elsewhere)
	l.Went(at(7))
	l.after(Grace)
	l.join(t, at(Most))
}

// TestRestart: what an earlier run knew stands until its machines had time to come back.
func TestRestart(t *testing.T) {
	p, away := proxy("192.0.2.7"), proxy("192.0.2.8")
	d := NewDisk(t.TempDir())
	first := New(slog.New(slog.DiscardHandler), d)
	g := group("shop", "db", "db", true)
	first.Apply([]config.Change{{Key: g.Key, Object: g}})
	taken := make(chan int)
	go func() {
		n := 0
		for c := range d.batches {
			n += len(c)
		}
		taken <- n
	}()
	for _, x := range []machine.Proxy{p, away} {
		first.Came(x)
		first.Tell(x, Health{Known: true, Well: true})
	}
	(&lab{Keeper: first}).settle(t.Context())
	close(d.batches)
	if n := <-taken; n != 2 {
		t.Fatalf("%d changes", n)
	}

	again := NewDisk(d.Folder)
	l := newLab()
	l.Store = again
	l.Restore(again.Load(l.Log))
	l.Apply([]config.Change{{Key: g.Key, Object: g}})
	changes := again.Adopt(l.InForce())
	if len(changes) != 2 || changes[0].Object.Out != "" {
		t.Fatalf("%+v", changes)
	}
	l.join(t, p)
	gone := make(chan config.Change, 1)
	go func() { gone <- (<-again.batches)[0] }()
	l.clock = l.clock.Add(Patience)
	l.settle(t.Context())
	if c := <-gone; c.Object != nil || c.Key != away.Key() {
		t.Errorf("%+v", c)
	}
	if left := NewDisk(d.Folder).Load(l.Log); len(left) != 1 || left[0].Proxy.Address != p.Address {
		t.Errorf("%+v", left)
	}
}
