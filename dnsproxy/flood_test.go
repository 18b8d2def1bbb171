package dnsproxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/hostile"
	"github.com/sallyport/sallyport/dnsproxy/limit"
)

// TestFloodOfNames: distinct names that do not exist neither grow the memory nor push out what is in use.
func TestFloodOfNames(t *testing.T) {
	const bound = 256 << 10
	a := startAuthority(t, "www.test. 600 IN A 192.0.2.1")
	s := serve(t, unhurried(Config{Upstreams: []string{a.addr}, CacheBytes: bound}))
	good := func() {
		if got := show(ask(t, s, "resolver", "www.test", dns.TypeA)); !strings.HasPrefix(got, "NOERROR | A") {
			t.Fatalf("the good name: %s", got)
		}
	}
	good()
	good() // twice: it is in use
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 300 {
				_, _ = try(s, "udp", "resolver", fmt.Sprintf("n%d-%d.a-name-that-takes-some-room-in-the-cache.test", worker, i), dns.TypeA)
			}
		})
	}
	wg.Wait()
	good()
	stats := s.cache.Stats()
	if a.count("www.test. A") != 1 || stats.Bytes > bound || stats.Evictions == 0 {
		t.Errorf("the good name was asked %d times; cache %+v", a.count("www.test. A"), stats)
	}
}

// TestFloodWhileUpstreamIsDead: what is in memory goes on being answered at once while all slots are taken by names
// that nobody answers, and goroutines stay as many as there are slots.
func TestFloodWhileUpstreamIsDead(t *testing.T) {
	p := hostile.Start(t, hostile.Config{UDP: func(w *hostile.Writer, req *dns.Msg) {
		if strings.EqualFold(req.Question[0].Name, "www.test.") {
			hostile.Answer("192.0.2.1")(w, req)
		}
	}})
	s := serve(t, Config{Upstreams: []string{p.Addr.String()}, MaxInFlight: 64, MaxUpstream: 32, Grace: time.Millisecond})
	ask(t, s, "resolver", "www.test", dns.TypeA)
	before := runtime.NumGoroutine()
	conn, err := net.Dial("udp", s.Addr("resolver").String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 3000 {
		m := new(dns.Msg)
		m.SetQuestion(fmt.Sprintf("n%d.test.", i), dns.TypeA)
		wire, _ := m.Pack()
		_, _ = conn.Write(wire)
	}
	eventually(t, "the slots are taken", func() bool { return s.slots.Taken() > 16 })
	for range 20 {
		if m := insist(s, "www.test", dns.TypeA); m == nil || show(m) != "NOERROR | A 60 192.0.2.1" {
			t.Fatalf("the good name: %v", m)
		}
	}
	// A question has a goroutine, its flight one, the attempt one; and the hostile server one for a moment.
	if n := runtime.NumGoroutine() - before; n > 64+2*32+200 {
		t.Errorf("%d goroutines more than before", n)
	}
}

// insist asks again, as clients do: the kernel drops datagrams in a flood.
func insist(s *Server, host string, kind uint16) *dns.Msg {
	client := dns.Client{Timeout: time.Second}
	for range 60 {
		m := new(dns.Msg)
		m.SetQuestion(dns.Fqdn(host), kind)
		if got, _, err := client.Exchange(m, s.Addr("resolver").String()); err == nil {
			return got
		}
	}
	return nil
}

// TestManyClients: ten thousand addresses are answered and limited within the memory for a few.
func TestManyClients(t *testing.T) {
	a := startAuthority(t, "www.test. 600 IN A 192.0.2.1")
	s := serve(t, Config{Upstreams: []string{a.addr}})
	if err := s.SetPolicy("resolver", Policy{Upstream: limit.Rate{PerSecond: 5}, Clients: 256}); err != nil {
		t.Fatal(err)
	}
	v, m := s.views[0], new(dns.Msg)
	for i := range 10_000 {
		m.SetQuestion(fmt.Sprintf("n%d.test.", i), dns.TypeA)
		wire, _ := m.Pack()
		c := call{client: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 1024)}
		if _, done := v.accept(&c, wire, nil); done {
			t.Fatal("the question is taken for none")
		}
		if _, answered := v.quick(&c, nil); answered {
			t.Fatalf("client %d is limited at its first question", i)
		}
	}
	if n := v.policy.Load().upstream.Clients(); n != 256 {
		t.Errorf("%d clients are told apart", n)
	}
}

// TestIdleAndDeafConnections: clients that say nothing, half of something, or never read, keep nobody else out for long.
func TestIdleAndDeafConnections(t *testing.T) {
	a := startAuthority(t)
	for i := range 60 {
		a.add(t, fmt.Sprintf("big.test. 600 IN TXT \"%0200d\"", i))
	}
	s := serve(t, Config{Upstreams: []string{a.addr}, MaxConns: 16, IdleTimeout: 300 * time.Millisecond})
	question := new(dns.Msg)
	question.SetQuestion("big.test.", dns.TypeTXT)
	wire, _ := question.Pack()
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 16 {
		conn := dialTCP(t, s)
		wg.Go(func() { // deaf: it asks without end and never reads
			for ctx.Err() == nil && i%2 == 0 {
				_ = conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
				if _, err := conn.Write(framed); err != nil && ctx.Err() != nil {
					return
				} else if err != nil && !isTimeout(err) {
					return
				}
			}
			if i%2 == 1 {
				_, _ = conn.Write(framed[:5])
				_, _ = io.Copy(io.Discard, conn)
			}
		})
	}
	eventually(t, "there is room again", func() bool {
		m, err := try(s, "tcp", "resolver", "big.test", dns.TypeTXT)
		return err == nil && len(m.Answer) == 60
	})
	if n := runtime.NumGoroutine() - before; n > 16+16+16*pipeline {
		t.Errorf("%d goroutines more than before", n)
	}
	cancel()
	wg.Wait()
}

// TestIdleConnectionsMakeRoom: a client that holds all connections does not keep the others out: the one that has been
// idle for longest is closed, unless it has only just come.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	s := serve(t, Config{Upstreams: []string{startAuthority(t).addr}, MaxConns: 2})
	l, now := s.listeners[0], time.Now()
	open := func(at time.Time) (net.Conn, bool) {
		client, server := net.Pipe()
		t.Cleanup(func() { client.Close() })
		conn := &held{Conn: server}
		t.Cleanup(func() { l.remove(conn) })
		return client, l.add(conn, at)
	}
	oldest, first := open(now)
	_, second := open(now.Add(time.Second))
	if _, tooSoon := open(now.Add(replaceable - 1)); !first || !second || tooSoon {
		t.Errorf("taken: %v, %v, and too soon %v", first, second, tooSoon)
	}
	if _, third := open(now.Add(replaceable)); !third {
		t.Error("there is no room")
	}
	if _, err := oldest.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the oldest: %v", err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
