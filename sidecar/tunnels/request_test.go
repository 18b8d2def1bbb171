package tunnels

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
	"github.com/sallyport/sallyport/xds/wire"
)

// ended are why requests were ended, by what they asked for.
type ended struct {
	mu  sync.Mutex
	why map[string][]string
}

func (e *ended) of(path string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why[path]
}

// asks has a request be under way. It is ended as often as it is told; gone says that it is over already.
func (e *ended) asks(l *lab, ns, authority, path string, gone bool) (done func(), taken bool) {
	of := envoylog.Tunnel{Began: time.Now(), Question: envoylog.Question{
		Kind: wire.KindHTTP, Authority: authority, Peer: "spiffe://cluster.local/ns/" + ns + "/sa/app", From: "10.0.0.7", Method: "GET", Path: path,
	}}
	return l.UnderWay(of, func(why string) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if gone {
			return sockdiag.ErrGone
		}
		if e.why == nil {
			e.why = map[string][]string{}
		}
		e.why[path] = append(e.why[path], why)
		return nil
	})
}

// A request ends by itself when it is denied, once, and others of its client's do not. Nobody has to have a right to end connections.
func TestRequestsEnd(t *testing.T) {
	inLab(t, 100, func(t *testing.T, l *lab) {
		l.cfg.Ender = nil
		e := &ended{}
		_, _ = e.asks(l, "shop", "a.test:80", "/a", false)
		_, _ = e.asks(l, "shop", "b.test:80", "/b", false)
		over, _ := e.asks(l, "shop", "a.test:80", "/over", false)
		_, _ = e.asks(l, "shop", "a.test:80", "/gone", true)
		l.since(time.Minute)
		over()
		l.deny("a.test:80", "by a policy")
		if asked, _ := l.since(time.Hour); len(asked) > 0 {
			t.Errorf("%q are asked about without a change", asked)
		}
		l.Changed(Change{Type: rowType, Names: []string{"https.443.egress/a.test:80"}})
		asked, _ := l.since(endsWithin)
		if want := []string{"a.test:80", "a.test:80", "a.test:80", "a.test:80"}; !slices.Equal(asked, want) {
			t.Errorf("%q are asked about", asked)
		}
		if got := e.of("/a"); !slices.Equal(got, []string{"by a policy"}) {
			t.Errorf("it is ended for %q", got)
		}
		if len(e.of("/b"))+len(e.of("/over")) > 0 {
			t.Error("another one is ended")
		}
		l.Changed(Change{Type: rowType, Names: []string{"https.443.egress/a.test:80"}})
		l.since(endsWithin)
		if got := e.of("/a"); len(got) != 1 {
			t.Errorf("it is ended %d times", len(got))
		}
		if s := l.Stats(); s.Ended != 1 || s.Requests != 3 || s.Open != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// endsWithin is how long what is denied may be under way.
const endsWithin = 10 * time.Second

// One client's namespace cannot take all the room, and what there is no room for does not go on.
func TestRequestsAreBounded(t *testing.T) {
	inLab(t, 4, func(t *testing.T, l *lab) {
		e := &ended{}
		var done []func()
		for i, want := range []bool{true, true, false} {
			d, taken := e.asks(l, "shop", "a.test:80", "/a", false)
			if taken != want {
				t.Fatalf("request %d of a namespace is taken: %v", i, taken)
			}
			done = append(done, d)
		}
		if _, taken := e.asks(l, "bank", "a.test:80", "/a", false); !taken {
			t.Error("another namespace has no room")
		}
		done[0]()
		if _, taken := e.asks(l, "shop", "a.test:80", "/a", false); !taken {
			t.Error("what was given back is not there")
		}
		if _, taken := l.UnderWay(envoylog.Tunnel{Unknown: true}, nil); taken {
			t.Error("what nobody can ask about goes on")
		}
		if s := l.Stats(); s.Refused != 2 || s.Requests != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// What began before a change, and is told of after it, is asked about.
func TestRequestsToldLate(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		e := &ended{}
		began := time.Now()
		l.since(time.Hour)
		l.deny("a.test:80", "by a policy")
		l.Changed(Change{Type: rowType, Names: []string{"https.443.egress/a.test:80"}})
		l.since(time.Hour)
		of := envoylog.Tunnel{Began: began, Question: envoylog.Question{Kind: wire.KindHTTP, Authority: "a.test:80", Method: "GET", Path: "/late"}}
		_, _ = l.UnderWay(of, func(why string) error { e.why = map[string][]string{"/late": {why}}; return nil })
		l.since(endsWithin)
		if got := e.of("/late"); len(got) != 1 {
			t.Errorf("it is ended for %q", got)
		}
	})
}

// What a change costs is what it is about, however much is under way.
func TestChangesCostWhatTheyAreAbout(t *testing.T) {
	p := newPlan()
	now := time.Now()
	for i := range 1000 {
		p.begin(envoylog.Question{Kind: wire.KindHTTP, Authority: fmt.Sprintf("h%d.test:80", i), Peer: fmt.Sprintf("spiffe://cluster.local/ns/n%d/sa/app", i)}, &tunnel{}, now, now)
	}
	p.change(Change{Type: rowType, Names: []string{"t/h7.test:80"}}, now)
	p.change(Change{Type: extensionType, Names: []string{"own/n8"}}, now)
	looked := 0
	var s scope
	p.gathered(&s, now.Add(settle))
	p.gathered(&s, now.Add(3*settle))
	p.meant(&s, func(*question) { looked++ })
	if looked != 2 {
		t.Errorf("it looks at %d", looked)
	}
	p.ready(now.Add(time.Minute))
	if len(p.due) > 2 {
		t.Errorf("%d are due", len(p.due))
	}
}

// TestRequestsLeaveRoom: when a namespace has as many requests under way as it may, whoever of its accounts has most gives his newest to another one; so do namespaces when there are as many as may be.
func TestRequestsLeaveRoom(t *testing.T) {
	inLab(t, 20, func(t *testing.T, l *lab) {
		cut := map[string][]string{}
		begin := func(ns, account, name string) (done func(), taken bool) {
			return l.UnderWay(envoylog.Tunnel{Began: time.Now(), Question: envoylog.Question{
				Kind: wire.KindHTTP, Authority: "a.test:80", Peer: peerOf(ns, account), Method: "GET", Path: name,
			}}, func(why string) error {
				cut[name] = append(cut[name], why)
				return nil
			})
		}
		for i := range 10 {
			if _, taken := begin("loud", "a", fmt.Sprint("/a", i)); !taken {
				t.Fatalf("request %d is refused", i)
			}
		}
		if _, taken := begin("loud", "a", "/a10"); taken || len(cut) > 0 {
			t.Errorf("of who has all one more is taken: %t; cut: %v", taken, cut)
		}
		for i := range 5 {
			if _, taken := begin("loud", "b", fmt.Sprint("/b", i)); !taken {
				t.Errorf("request %d of another account is refused", i)
			}
		}
		want := map[string][]string{}
		for i := range 5 {
			want[fmt.Sprint("/a", 9-i)] = []string{crowdedRequests}
		}
		if fmt.Sprint(cut) != fmt.Sprint(want) {
			t.Errorf("cut: %v, want %v", cut, want)
		}
		if _, taken := begin("loud", "b", "/b5"); taken {
			t.Error("one more of who has as many as the other is taken")
		}
		clear(cut)
		for i := range 10 {
			if _, taken := begin("second", "a", fmt.Sprint("/c", i)); !taken {
				t.Errorf("request %d of another namespace is refused", i)
			}
		}
		done, taken := begin("third", "a", "/d")
		if !taken || len(cut) != 1 {
			t.Errorf("a third namespace's is taken: %t; cut: %v", taken, cut)
		}
		done()
		if s := l.Stats(); s.Refused != 2 {
			t.Errorf("%+v", s)
		}
	})
}
