package dnsproxy

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/limit"
	"github.com/sallyport/sallyport/dnsproxy/name"
)

func TestOneQuestionForManyAskers(t *testing.T) {
	a := startAuthority(t, "w.test. 60 IN A 192.0.2.1")
	gate := make(chan struct{})
	a.answerWith(func(dns.ResponseWriter, *dns.Msg) bool { <-gate; return false })
	s := serve(t, unhurried(Config{Upstreams: []string{a.addr}}))
	const askers = 50
	var wg sync.WaitGroup
	var right atomic.Int64
	for i := range askers {
		wg.Go(func() {
			m, err := try(s, []string{"udp", "tcp"}[i%2], "resolver", []string{"w.test", "W.test"}[i/2%2], dns.TypeA)
			if err == nil && len(m.Answer) == 1 {
				right.Add(1)
			}
		})
	}
	eventually(t, "all of them wait", func() bool { return s.slots.Taken() == askers })
	s.flights.mu.Lock()
	flights := len(s.flights.running) // not what reaches the upstream: on a slow machine it is asked the same again
	s.flights.mu.Unlock()
	close(gate)
	wg.Wait()
	if right.Load() != askers || flights != 1 {
		t.Errorf("%d right answers, %d questions upstream", right.Load(), flights)
	}
}

func TestDifferentBitsAreDifferentAnswers(t *testing.T) {
	a := startAuthority(t, "w.test. 60 IN A 192.0.2.1")
	s := serve(t, unhurried(Config{Upstreams: []string{a.addr}}))
	cd := func(m *dns.Msg) { m.CheckingDisabled = true }
	for range 2 {
		if m := ask(t, s, "resolver", "w.test", dns.TypeA, edns(1232, true)); m.IsEdns0() == nil || !m.IsEdns0().Do() {
			t.Errorf("DO is not passed back: %v", m)
		}
		if m := ask(t, s, "resolver", "w.test", dns.TypeA); m.IsEdns0() != nil {
			t.Errorf("EDNS without being asked: %v", m)
		}
		if m := ask(t, s, "resolver", "w.test", dns.TypeA, cd); !m.CheckingDisabled {
			t.Errorf("CD is not passed back: %v", m)
		}
	}
	if n := a.count("w.test. A"); n != 3 {
		t.Errorf("upstream was asked %d times, want 3", n)
	}
}

func TestLargeAnswers(t *testing.T) {
	a := startAuthority(t)
	for i := range 60 {
		a.add(t, fmt.Sprintf("big.test. 60 IN TXT \"%060d\"", i))
	}
	s := serve(t, unhurried(Config{Upstreams: []string{a.addr}}))
	if m := ask(t, s, "resolver", "big.test", dns.TypeTXT); !m.Truncated || len(m.Answer) != 0 {
		t.Errorf("by UDP: %v", m)
	}
	if m, err := try(s, "tcp", "resolver", "big.test", dns.TypeTXT); err != nil || m.Truncated || len(m.Answer) != 60 {
		t.Errorf("by TCP: %v, %v", m, err)
	}
	if a.count("tcp") != 1 {
		t.Errorf("upstream was asked %d times by TCP", a.count("tcp"))
	}
}

func TestForwardByDomain(t *testing.T) {
	base, corp := startAuthority(t, "a.test. 60 IN A 192.0.2.1"), startAuthority(t, "a.corp.test. 60 IN A 10.0.0.1", "corp.test. 60 IN A 10.0.0.2")
	deep := startAuthority(t, "x.deep.corp.test. 60 IN A 10.0.0.3")
	s := serve(t, unhurried(Config{Upstreams: []string{base.addr}, Forward: map[string][]string{"Corp.test.": {corp.addr}, "deep.corp.test": {deep.addr}}}))
	for host, want := range map[string]string{
		"a.test": "NOERROR | A 60 192.0.2.1", "a.corp.test": "NOERROR | A 60 10.0.0.1", "CORP.test": "NOERROR | A 60 10.0.0.2",
		"x.deep.corp.test": "NOERROR | A 60 10.0.0.3", "notcorp.test": "NXDOMAIN",
	} {
		if got := show(ask(t, s, "resolver", host, dns.TypeA)); got != want {
			t.Errorf("%s: got %s, want %s", host, got, want)
		}
	}
	if base.count("notcorp.test. A") != 1 {
		t.Error("notcorp.test was taken for a part of corp.test")
	}
}

func TestResolvConfIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("nameserver 127.0.0.9\nnameserver ::1\nsearch x.test\noptions ndots:5\n")
	s := serve(t, Config{ResolvConf: path})
	servers := func() string { return fmt.Sprint(s.routes.base.Servers()) }
	eventually(t, "read", func() bool { return servers() == "[127.0.0.9:53 [::1]:53]" })
	write("# nothing\n")
	write("nameserver 127.0.0.10\n")
	eventually(t, "followed", func() bool { return servers() == "[127.0.0.10:53]" })
	s.useResolvConf([]byte("nonsense\n"))
	if servers() != "[127.0.0.10:53]" {
		t.Errorf("upstreams are %s", servers())
	}
}

func TestOwnAddressIsNoUpstream(t *testing.T) {
	s, err := New(Config{Views: []View{{Name: "resolver"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.listeners = []*listener{{addr: netip.MustParseAddrPort("0.0.0.0:53")}} // as if
	s.useResolvConf([]byte("nameserver 127.0.0.1\nnameserver 192.0.2.53\n"))
	if got := fmt.Sprint(s.routes.base.Servers()); got != "[192.0.2.53:53]" {
		t.Errorf("upstreams are %s", got)
	}
	if got := show(ask(t, serve(t, Config{}), "resolver", "a.test", dns.TypeA)); got != "SERVFAIL" {
		t.Errorf("without upstreams: %s", got)
	}
}

func TestInFlightIsBounded(t *testing.T) {
	a := startAuthority(t)
	gate := make(chan struct{})
	a.answerWith(func(dns.ResponseWriter, *dns.Msg) bool { <-gate; return false })
	s := serve(t, unhurried(Config{Upstreams: []string{a.addr}, MaxInFlight: 2}))
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() { _, _ = try(s, "udp", "resolver", fmt.Sprintf("slow%d.test", i), dns.TypeA) })
	}
	eventually(t, "both wait", func() bool { return s.slots.Taken() == 2 })
	for _, network := range []string{"udp", "tcp"} {
		if m, err := try(s, network, "resolver", "third.test", dns.TypeA); err != nil || show(m) != "SERVFAIL" {
			t.Errorf("%s: got %v, %v", network, m, err)
		}
	}
	close(gate)
	wg.Wait()
	if got := metric(t, s, "sallyport_dns_rejected_total", "in-flight"); got != 2 {
		t.Errorf("%v rejections counted", got)
	}
}

func dialTCP(t *testing.T, s *Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr("resolver").String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

func TestConnectionsAreBounded(t *testing.T) {
	s := serve(t, Config{MaxConns: 2, IdleTimeout: 200 * time.Millisecond})
	l := s.listeners[0]
	first, second := dialTCP(t, s), dialTCP(t, s)
	eventually(t, "two connections", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.conns) == 2 })
	if _, err := io.ReadAll(dialTCP(t, s)); err != nil {
		t.Errorf("the third: %v", err)
	}
	if _, err := first.Write([]byte{0, 30, 1}); err != nil { // a slow one, and one that says nothing
		t.Fatal(err)
	}
	for _, conn := range []net.Conn{first, second} {
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("not closed: %v", err)
		}
	}
	eventually(t, "room again", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.conns) == 0 })
}

// TestPipeline: a quick answer does not wait for a slow one that was asked before on the same connection.
func TestPipeline(t *testing.T) {
	a := startAuthority(t, "slow.test. 60 IN A 192.0.2.1", "quick.test. 60 IN A 192.0.2.2")
	gate := make(chan struct{})
	a.answerWith(func(_ dns.ResponseWriter, req *dns.Msg) bool {
		if strings.EqualFold(req.Question[0].Name, "slow.test.") {
			<-gate
		}
		return false
	})
	s := serve(t, unhurried(Config{Upstreams: []string{a.addr}}))
	conn := &dns.Conn{Conn: dialTCP(t, s)}
	for _, host := range []string{"slow.test.", "quick.test."} {
		m := new(dns.Msg)
		m.SetQuestion(host, dns.TypeA)
		if err := conn.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"quick.test.", "slow.test."} {
		m, err := conn.ReadMsg()
		if err != nil || m.Question[0].Name != want {
			t.Fatalf("answer %d: %v, %v", i, m, err)
		}
		if i == 0 {
			close(gate)
		}
	}
	framed := binary.BigEndian.AppendUint16(nil, maxQuery+1)
	if _, err := conn.Conn.Write(framed); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ReadMsg(); err == nil {
		t.Error("an oversized question is read")
	}
}

// TestShutdownIsGraceful: the question in flight is answered, then nothing is left.
func TestShutdownIsGraceful(t *testing.T) {
	a := startAuthority(t, "w.test. 60 IN A 192.0.2.1")
	gate := make(chan struct{})
	a.answerWith(func(dns.ResponseWriter, *dns.Msg) bool { <-gate; return false })
	s, err := New(unhurried(Config{Upstreams: []string{a.addr}, Views: []View{{Name: "resolver", Listen: []string{"127.0.0.1:0"}}}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	answers := make(chan *dns.Msg, 2)
	for _, network := range []string{"udp", "tcp"} {
		go func() { m, _ := try(s, network, "resolver", "w.test", dns.TypeA); answers <- m }()
	}
	eventually(t, "both wait", func() bool { return s.slots.Taken() == 2 })
	cancel()
	close(gate)
	for range 2 {
		if m := <-answers; m == nil || len(m.Answer) != 1 {
			t.Errorf("answer %v", m)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.DialTimeout("tcp", s.Addr("resolver").String(), time.Second); err == nil {
		t.Error("still listens")
	}
}

func TestShutdownEndsWithGrace(t *testing.T) {
	a := startAuthority(t)
	gate := make(chan struct{})
	defer close(gate)
	a.answerWith(func(dns.ResponseWriter, *dns.Msg) bool { <-gate; return false })
	s, _ := New(Config{Upstreams: []string{a.addr}, Grace: 10 * time.Millisecond, Views: []View{{Name: "resolver", Listen: []string{"127.0.0.1:0"}}}})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	answer := make(chan *dns.Msg, 1)
	go func() { m, _ := try(s, "udp", "resolver", "w.test", dns.TypeA); answer <- m }()
	eventually(t, "it waits", func() bool { return s.slots.Taken() == 1 })
	cancel()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("waits longer than Grace")
	}
	if m := <-answer; m == nil || show(m) != "SERVFAIL" {
		t.Errorf("answer %v", m)
	}
}

func TestWildcardAddress(t *testing.T) {
	a := startAuthority(t, "w.test. 60 IN A 192.0.2.1")
	s := serve(t, Config{Upstreams: []string{a.addr}, Views: []View{{Name: "resolver", Listen: []string{"0.0.0.0:0"}}, {Name: "both", Listen: []string{"[::]:0"}}}})
	v4, both := s.Addr("resolver").Port(), s.Addr("both").Port()
	for _, at := range []netip.AddrPort{ // a connected client takes answers from that address only
		netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), v4), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.77"), v4),
		netip.AddrPortFrom(netip.MustParseAddr("127.0.0.77"), both), netip.AddrPortFrom(netip.IPv6Loopback(), both),
	} {
		m := new(dns.Msg)
		m.SetQuestion("w.test.", dns.TypeA)
		got, _, err := new(dns.Client).Exchange(m, at.String())
		if err != nil || len(got.Answer) != 1 {
			t.Errorf("%s: %v, %v", at, got, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for field, config := range map[string]Config{
		"views: 0 ":          {},
		"views[0].name \"\"": {Views: []View{{}}},
		`views[1].name "a"`:  {Views: []View{{Name: "a"}, {Name: "a"}}},
		"upstreams[1]":       {Views: []View{{Name: "a"}}, Upstreams: []string{"127.0.0.1", "dns.test"}},
		"port 0":             {Views: []View{{Name: "a"}}, Upstreams: []string{"127.0.0.1:0"}},
		`forward["a.b"]`:     {Views: []View{{Name: "a"}}, Forward: map[string][]string{"a.b": nil}},
		`forward: name`:      {Views: []View{{Name: "a"}}, Forward: map[string][]string{"a..b": {"127.0.0.1"}}},
		"views[1].search":    {Views: []View{{Name: "a", Search: []string{"svc.test"}}, {Name: "b", Search: []string{""}}}},
	} {
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want one about %s", err, field)
		}
	}
}

// FuzzQuestion: whatever comes, there is no panic and every answer can be read.
func FuzzQuestion(f *testing.F) {
	s, err := New(Config{Views: []View{{Name: "app", Names: true, Policy: func(Question) Action { return NXDomain }, Search: []string{"svc.test"}}}})
	if err != nil {
		f.Fatal(err)
	}
	_ = s.Names().Apply([]name.Name{named("external.com", 0, "240.240.0.1"), named("*.example.com", 0, "2001:2::1")}, nil)
	s.Names().SetReady()
	_ = s.SetPolicy("app", Policy{RefuseUnregistered: true, LocalReverse: true, Local: []string{"cluster.local"}, Odd: limit.Rate{PerSecond: 1}})
	for _, host := range []string{"external.com.", "a.example.com.", "external.com.svc.test.", "1.0.240.240.in-addr.arpa.", "1.0.0.10.in-addr.arpa.", "a.cluster.local."} {
		m := new(dns.Msg)
		m.SetQuestion(host, dns.TypeA)
		m.SetEdns0(1232, true)
		wire, _ := m.Pack()
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c call
		answer, ok := s.views[0].accept(&c, b, nil)
		if !ok {
			answer, _ = s.views[0].quick(&c, nil)
		}
		if len(answer) > 0 && new(dns.Msg).Unpack(answer) != nil {
			t.Fatalf("%x is answered by %x", b, answer)
		}
	})
}
