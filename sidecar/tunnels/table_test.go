package tunnels

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
	"github.com/sallyport/sallyport/xds/wire"
)

// lab is a gateway: its table, its kernel, and who ends connections.
type lab struct {
	*Table
	mu     sync.Mutex
	denies map[string]string // authority → why
	by     record.Object     // who denies
	fails  int               // how many questions get no answer
	broken int               // how many times nothing can be ended
	asked  []string          // authorities, since the last look
	ended  []uint64          // cookies
	kernel map[netip.AddrPort]uint64
	rest   map[netip.AddrPort]time.Duration // for how long nothing has moved
	stalls time.Duration                    // how long it takes once to say so
	mute   bool                             // it says nothing
}

// inLab runs a test with a table that is run, and lets time pass by itself.
func inLab(t *testing.T, most int, test func(t *testing.T, l *lab)) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{denies: map[string]string{}, kernel: map[netip.AddrPort]uint64{}, rest: map[netip.AddrPort]time.Duration{}}
		l.Table = New(Config{Log: slog.New(slog.DiscardHandler), Most: most, MostRequests: most, Ask: l.ask, Kernel: l, Ender: l})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { l.Run(ctx); close(done) }()
		test(t, l)
		stop()
		<-done
	})
}

func (l *lab) ask(_ context.Context, q envoylog.Question) (envoylog.Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, q.Authority)
	if l.fails > 0 {
		l.fails--
		return envoylog.Answer{}, errors.New("nobody answers")
	}
	why := l.denies[q.Authority]
	return envoylog.Answer{Denied: why != "", Why: why, By: l.by}, nil
}

func (l *lab) Find(_ string, local, remote netip.AddrPort) (sockdiag.Connection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cookie, there := l.kernel[remote]; there {
		return sockdiag.Connection{Local: local, Remote: remote, Cookie: cookie}, nil
	}
	return sockdiag.Connection{}, sockdiag.ErrGone
}

func (l *lab) Open(_ []string, each func(sockdiag.Connection)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for remote, cookie := range l.kernel {
		each(sockdiag.Connection{Local: gateway, Remote: remote, Cookie: cookie})
	}
	return nil
}

func (l *lab) Activities(each func(sockdiag.Activity)) error {
	l.mu.Lock()
	stalls := l.stalls
	l.stalls = 0
	l.mu.Unlock()
	time.Sleep(stalls) // of synctest
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mute {
		return errors.New("no right")
	}
	for remote, cookie := range l.kernel {
		each(sockdiag.Activity{Connection: sockdiag.Connection{Local: gateway, Remote: remote, Cookie: cookie}, Quiet: l.rest[remote]})
	}
	return nil
}

func (l *lab) End(_ context.Context, c sockdiag.Connection, _ ...sockdiag.Connection) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken > 0 {
		l.broken--
		return errors.New("no right")
	}
	if l.kernel[c.Remote] != c.Cookie {
		return sockdiag.ErrGone
	}
	delete(l.kernel, c.Remote)
	l.ended = append(l.ended, c.Cookie)
	return nil
}

func (l *lab) Can(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken > 0 {
		return errors.New("no right")
	}
	return nil
}

// deny has the table deny what it is asked about a host, or not any more.
func (l *lab) deny(authority, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.denies[authority] = why
}

// since gives what was asked and ended since the last call, once a time is over.
func (l *lab) since(d time.Duration) (asked []string, ended []uint64) {
	time.Sleep(d) // of synctest
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	asked, ended = l.asked, l.ended
	l.asked, l.ended = nil, nil
	slices.Sort(asked)
	slices.Sort(ended)
	return asked, ended
}

var gateway = netip.MustParseAddrPort("10.0.0.20:8443")

// opens has a tunnel begin: its port is its cookie, unless another one is given.
func (l *lab) opens(ns, authority string, port uint16, cookie ...uint64) envoylog.Tunnel {
	client := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.7"), port)
	l.mu.Lock()
	l.kernel[client] = uint64(port)
	if len(cookie) > 0 {
		l.kernel[client] = cookie[0]
	}
	l.mu.Unlock()
	of := envoylog.Tunnel{
		Question: envoylog.Question{Kind: "tls", Authority: authority, Peer: "spiffe://cluster.local/ns/" + ns + "/sa/app", From: "10.0.0.7"},
		Local:    gateway, Client: client, Began: time.Now(),
	}
	l.Begin(of)
	return of
}

func (l *lab) done(of envoylog.Tunnel) string { return l.Done(of.Client.String(), of.Began) }

func policiesOf(ns, body string) Change {
	return Change{Type: extensionType, Names: []string{"own/" + ns}, Bodies: [][]byte{[]byte(body)}}
}

// row is the name of a host's row, as the gateway's table has it.
func row(host string) string { return wire.VhostName(wire.ExitRoute, wire.HostPort(host, 443)) }

const longEnough = 5 * time.Second

func want[T comparable](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestEndsWhatIsDenied(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		one, two := l.opens("shop", "a.test:443", 1), l.opens("shop", "a.test:443", 2)
		l.opens("shop", "b.test:443", 3)
		l.opens("cart", "a.test:443", 4)
		if asked, _ := l.since(longEnough); len(asked) > 0 {
			t.Error("without a change was asked about", asked)
		}
		l.deny("a.test:443", "a rule")
		l.Changed(policiesOf("shop", ""))
		asked, ended := l.since(longEnough)
		want(t, "asked, and again before anything is ended", asked, "a.test:443", "a.test:443", "b.test:443")
		want(t, "ended", ended, 1, 2)
		if why := l.done(one); why != "a rule" {
			t.Errorf("its record says %q", why)
		}
		if why := l.done(one); why != "" {
			t.Errorf("a second record says %q", why)
		}
		if s := l.Stats(); s.Open != 3 || s.Ended != 2 || s.Denied != 0 || !l.Ends(t.Context()) {
			t.Errorf("%+v", s)
		}
		l.done(two)
		if s := l.Stats(); s.Open != 2 || s.Questions != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRulesEndByThemselves(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		l.opens("shop", "a.test:443", 1)
		l.opens("cart", "a.test:443", 2)
		ends := time.Now().Add(time.Hour).Truncate(time.Second)
		l.Changed(policiesOf("shop", "\x12\x09timestamp\x1a\x1a"+ends.UTC().Format(time.RFC3339)+"\x08"))
		l.since(longEnough)
		l.deny("a.test:443", "its rule has ended")
		if asked, ended := l.since(time.Until(ends)); len(asked)+len(ended) > 0 {
			t.Errorf("before its end: asked %v, ended %v", asked, ended)
		}
		asked, ended := l.since(longEnough)
		want(t, "asked", asked, "a.test:443", "a.test:443")
		want(t, "ended", ended, 1)
		// a tunnel that was let in just before, and is told of after
		l.deny("late.test:443", "its rule has ended")
		late := l.opens("shop", "late.test:443", 3)
		l.done(late)
		late.Began = ends.Add(-time.Millisecond)
		l.Begin(late)
		_, ended = l.since(longEnough)
		want(t, "ended of what came late", ended, 3)
	})
}

// TestWhatNobodyKnowsAnyMoreEndsNothing: of a request that was upgraded its headers are gone, so that rules which look at them say nothing of it.
func TestWhatNobodyKnowsAnyMoreEndsNothing(t *testing.T) {
	header := func(name string) string {
		body, err := anypb.New(&matcherv3.HttpRequestHeaderMatchInput{HeaderName: name})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(&corev3.TypedExtensionConfig{Name: "input", TypedConfig: body})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	inLab(t, 10, func(t *testing.T, l *lab) {
		request := l.opens("shop", "a.test:80", 1)
		l.done(request)
		request.Question.Kind, request.Method, request.Path = wire.KindHTTP, "GET", "/"
		l.Begin(request)
		l.opens("shop", "a.test:80", 2) // TLS, of which it is known what there was to see
		l.Changed(policiesOf("shop", header(":path")+header("x-key")))
		l.by = record.Object{Kind: wire.EgressPolicy, Namespace: "shop"}
		l.deny("a.test:80", "its rule wants a header")
		asked, ended := l.since(longEnough)
		want(t, "asked", asked, "a.test:80", "a.test:80", "a.test:80")
		want(t, "ended", ended, 2)
		if s := l.Stats(); s.Unasked != 1 || s.Denied != 0 {
			t.Errorf("%+v", s)
		}
		other := l.opens("shop", "b.test:80", 3)
		l.done(other)
		other.Question.Kind, other.Method, other.Path = wire.KindHTTP, "GET", "/"
		l.Begin(other)
		l.since(longEnough)
		l.mu.Lock()
		l.by = record.Object{}
		l.mu.Unlock()
		l.deny("b.test:80", "nobody registers it any more")
		l.Changed(Change{Type: rowType, Names: []string{row("b.test")}})
		_, ended = l.since(longEnough)
		want(t, "ended by what is no policy", ended, 3)
		l.mu.Lock()
		l.by = record.Object{Kind: wire.EgressPolicy, Namespace: "shop"}
		l.mu.Unlock()
		l.Changed(policiesOf("shop", header(":path")))
		_, ended = l.since(longEnough)
		want(t, "ended by rules that look at its path alone", ended, 1)
	})
}

// TestInTurn: one namespace's many questions keep another's few waiting for no more than a round.
func TestInTurn(t *testing.T) {
	var due []*question
	for i := range 20 {
		due = append(due, &question{namespace: "many", host: fmt.Sprint(i)})
	}
	due = append(due, &question{namespace: "few", host: "x"}, &question{namespace: "few", host: "y"})
	var hosts []string
	for _, q := range inTurn(due, 5) {
		hosts = append(hosts, q.host)
	}
	want(t, "asked first", hosts, "x", "0", "y", "1", "2")
	if all := inTurn(due, 100); len(all) != len(due) {
		t.Errorf("%d of %d are asked", len(all), len(due))
	}
}

func TestARuleThatIsTakenAwayDoesNotEnd(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		l.opens("shop", "a.test:443", 1)
		l.Changed(policiesOf("shop", time.Now().Add(time.Minute).UTC().Format(time.RFC3339)))
		l.Changed(Change{Type: extensionType, Names: []string{"own/shop"}})
		l.since(longEnough)
		if asked, _ := l.since(time.Hour); len(asked) > 0 {
			t.Error("asked about", asked)
		}
	})
}

func TestReplacedObjectsEndNothing(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		l.opens("shop", "a.test:443", 1)
		l.deny("a.test:443", "not registered")
		l.Changed(Change{Type: rowType, Names: []string{row("a.test")}})
		l.since(2 * settle)
		l.deny("a.test:443", "")
		l.Changed(Change{Type: rowType, Names: []string{row("a.test")}, Bodies: [][]byte{{}}})
		if _, ended := l.since(longEnough); len(ended) > 0 {
			t.Error("ended", ended)
		}
	})
}

// TestAChangeIsSettledByItself: Envoy's workers take a change a little later than it says, whenever others came before.
func TestAChangeIsSettledByItself(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		l.opens("shop", "a.test:443", 1)
		l.Changed(policiesOf("shop", "one"))
		l.since(settle - settle/10)
		l.Changed(policiesOf("shop", "two"))
		l.since(settle / 2)
		l.deny("a.test:443", "a rule")
		_, ended := l.since(longEnough)
		want(t, "ended", ended, 1)
	})
}

// TestAskedAgainInItsTime: a change does not have it asked sooner that was denied.
func TestAskedAgainInItsTime(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		l.opens("shop", "a.test:443", 1)
		l.deny("a.test:443", "not registered")
		l.Changed(Change{Type: rowType, Names: []string{row("a.test")}})
		l.since(settle / 2)
		l.Changed(policiesOf("shop", ""))
		if _, ended := l.since(again); len(ended) > 0 {
			t.Error("ended", ended)
		}
		_, ended := l.since(again)
		want(t, "ended", ended, 1)
	})
}

func TestChangesBeforeABeginningIsTold(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		l.deny("a.test:443", "a rule")
		l.Changed(policiesOf("shop", ""))
		l.since(settle * 2)
		l.opens("shop", "a.test:443", 1)
		_, ended := l.since(longEnough)
		want(t, "ended", ended, 1)
	})
}

// TestPortsAreUsedAgain: a client's port is another connection's meanwhile, which is none of those that are denied.
func TestPortsAreUsedAgain(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		first := l.opens("shop", "a.test:443", 1, 100)
		time.Sleep(time.Millisecond) // of synctest
		next := l.opens("shop", "b.test:443", 1, 200)
		l.deny("a.test:443", "a rule")
		l.Changed(policiesOf("shop", ""))
		if _, ended := l.since(longEnough); len(ended) > 0 {
			t.Error("ended", ended)
		}
		if why := l.done(first); why != "" {
			t.Errorf("the record of the one before says %q", why)
		}
		l.deny("b.test:443", "a rule")
		l.Changed(policiesOf("shop", ""))
		_, ended := l.since(longEnough)
		want(t, "ended", ended, 200)
		if why := l.done(next); why != "a rule" {
			t.Errorf("its record says %q", why)
		}
	})
}

func TestBounded(t *testing.T) {
	inLab(t, 100, func(t *testing.T, l *lab) {
		for port := range uint16(300) {
			l.opens("shop", fmt.Sprintf("%d.test:443", port), port+1)
		}
		if s := l.Stats(); s.Open != 100 || s.Questions != 100 || s.Untracked != 200 {
			t.Errorf("%+v", s)
		}
		l.mu.Lock()
		clear(l.kernel) // all of them end, and nobody says so
		l.mu.Unlock()
		time.Sleep(3 * sweepEvery) // of synctest
		synctest.Wait()
		if s := l.Stats(); s.Open != 0 || s.Questions != 0 {
			t.Errorf("when all have ended: %+v", s)
		}
	})
}

func TestWhatEndsAtOnceIsForgotten(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		of := l.opens("shop", "a.test:443", 1)
		l.done(of)
		l.mu.Lock()
		delete(l.kernel, of.Client)
		l.mu.Unlock()
		l.Begin(of) // what is told of it comes when it has ended
		if s := l.Stats(); s.Open != 0 || s.Untracked != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestTriedAgain(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		l.opens("shop", "a.test:443", 1)
		l.mu.Lock()
		l.denies["a.test:443"], l.fails, l.broken = "a rule", 2, 2
		l.mu.Unlock()
		if l.Ends(t.Context()) {
			t.Error("who has no right to ends tunnels")
		}
		l.Changed(policiesOf("shop", ""))
		_, ended := l.since(time.Minute)
		want(t, "ended", ended, 1)
		if s := l.Stats(); s.Unasked != 2 || s.Failed != 2 || s.Ended != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestNobodyMayEnd(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		l.cfg.Ender = nil
		l.opens("shop", "a.test:443", 1)
		l.deny("a.test:443", "a rule")
		l.Changed(policiesOf("shop", ""))
		l.since(longEnough)
		if s := l.Stats(); s.Denied != 1 || s.Open != 1 || l.Ends(t.Context()) {
			t.Errorf("%+v", s)
		}
	})
}

func TestScope(t *testing.T) {
	for name, c := range map[string]struct {
		change Change
		means  map[string]bool // host → a tunnel of namespace shop is meant
	}{
		"a row":                   {Change{Type: rowType, Names: []string{row("a.test")}}, map[string]bool{"a.test": true, "b.test": false, "x.a.test": false}},
		"a pattern's row":         {Change{Type: rowType, Names: []string{row("*.a.test")}}, map[string]bool{"a.test": false, "x.a.test": true, "x.y.a.test": true, "b.test": false}},
		"everybody's row":         {Change{Type: rowType, Names: []string{"t/*"}}, map[string]bool{"a.test": true}},
		"the namespace's":         {Change{Type: extensionType, Names: []string{"own/shop"}}, map[string]bool{"a.test": true}},
		"another namespace's":     {Change{Type: extensionType, Names: []string{"own/cart"}}, map[string]bool{"a.test": false}},
		"an address' row":         {Change{Type: rowType, Names: []string{row("2001:db8::7")}}, map[string]bool{"2001:db8::7": true, "2001:db8::8": false}},
		"the root namespace's":    {Change{Type: extensionType, Names: []string{"root/*"}}, map[string]bool{"a.test": true}},
		"the root's for it":       {Change{Type: extensionType, Names: []string{"root/shop"}}, map[string]bool{"a.test": true}},
		"the root's for another":  {Change{Type: extensionType, Names: []string{"root/cart"}}, map[string]bool{"a.test": false}},
		"what is not known":       {Change{Type: extensionType, Names: []string{"x/y"}}, map[string]bool{"a.test": true}},
		"the table":               {Change{Type: routeType, Names: []string{"t"}}, map[string]bool{"a.test": true}},
		"a row, and a namespace":  {Change{Type: rowType, Names: []string{row("a.test"), row("b.test")}}, map[string]bool{"a.test": true, "b.test": true, "c.test": false}},
		"what nobody asks about":  {Change{Type: prefix + "cluster.v3.Cluster", Names: []string{"c"}}, map[string]bool{"a.test": false}},
		"an answer without names": {Change{Type: routeType}, map[string]bool{"a.test": false}},
	} {
		s, about := scopeOf(c.change)
		for host, want := range c.means {
			p, of := newPlan(), &tunnel{}
			p.begin(envoylog.Question{Authority: net.JoinHostPort(host, "443"), Peer: "spiffe://cluster.local/ns/shop/sa/app"}, of, time.Now(), time.Now())
			got := false
			if about {
				p.meant(&s, func(q *question) { got = q == of.asked })
			}
			if got != want {
				t.Errorf("%s: %s is meant: %t", name, host, got)
			}
			if p.done(of); len(p.questions)+len(p.about)+len(p.due) > 0 {
				t.Errorf("%s: something is left of %s: %v", name, host, p)
			}
		}
	}
}

// TestTopicsOfLongHosts: what is kept of a host that is longer than any can be is what patterns may be about, and no more: of one of 60 KiB with a dot at each other byte all of its ends would
// be 900 MB.
func TestTopicsOfLongHosts(t *testing.T) {
	q, bytes := &question{host: strings.Repeat("a.", 30<<10) + "wild.test", namespace: "shop"}, 0
	means := map[string]bool{}
	q.topics(func(topic string) {
		bytes += len(topic)
		means[topic] = true
	})
	if most := len(q.host) + 64<<10; bytes > most {
		t.Errorf("topics of %d bytes, at most %d", bytes, most)
	}
	if s, _ := scopeOf(Change{Type: rowType, Names: []string{"t/*.wild.test:80"}}); !slices.ContainsFunc(slices.Collect(maps.Keys(s.hosts)), func(host string) bool { return means[topicOf(host)] }) {
		t.Error("the pattern that it is below is not about it")
	}
}

// TestManyChangesAreOne: what is gathered is bounded.
func TestManyChangesAreOne(t *testing.T) {
	var s scope
	for i := range 3 * mostNames {
		one, _ := scopeOf(Change{Type: rowType, Names: []string{fmt.Sprintf(row("%d.test"), i)}})
		s.add(one)
	}
	if !s.all || len(s.hosts) > 0 {
		t.Errorf("all: %t, %d hosts", s.all, len(s.hosts))
	}
}
