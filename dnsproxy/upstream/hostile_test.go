package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is an upstream by hand: udp and tcp say what comes back for a question, datagram by datagram.
type peer struct {
	addr     netip.AddrPort
	udp, tcp func(req *dns.Msg) [][]byte
	asked    atomic.Int64
	viaTCP   atomic.Int64
	requests chan *dns.Msg
}

func startPeer(t *testing.T, udp, tcp func(req *dns.Msg) [][]byte) *peer {
	t.Helper()
	p := &peer{udp: udp, tcp: tcp, requests: make(chan *dns.Msg, 64)}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	var conn net.PacketConn
	var l net.Listener
	for attempt := 0; l == nil; attempt++ {
		var err error
		if conn, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if l, err = net.Listen("tcp", conn.LocalAddr().String()); err != nil {
			conn.Close()
			if attempt > 10 {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() { conn.Close(); l.Close() })
	p.addr = netip.MustParseAddrPort(conn.LocalAddr().String())
	wg.Go(func() { p.serveUDP(conn) })
	wg.Go(func() { p.serveTCP(l) })
	return p
}

func (p *peer) serveUDP(conn net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		req := new(dns.Msg)
		if req.Unpack(buf[:n]) != nil {
			continue
		}
		p.asked.Add(1)
		p.requests <- req
		for _, out := range p.udp(req) {
			_, _ = conn.WriteTo(out, from)
		}
	}
}

func (p *peer) serveTCP(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		p.viaTCP.Add(1)
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err == nil && p.tcp != nil {
			buf := make([]byte, binary.BigEndian.Uint16(size[:]))
			_, _ = io.ReadFull(conn, buf)
			req := new(dns.Msg)
			_ = req.Unpack(buf)
			for _, out := range p.tcp(req) {
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
			}
		}
		conn.Close()
	}
}

// reply answers with addr, changed by edit.
func reply(req *dns.Msg, addr string, edit func(*dns.Msg)) []byte {
	m := new(dns.Msg)
	m.SetReply(req)
	rr, _ := dns.NewRR(req.Question[0].Name + " 60 IN A " + addr)
	m.Answer = []dns.RR{rr}
	if edit != nil {
		edit(m)
	}
	wire, _ := m.Pack()
	return wire
}

func good(req *dns.Msg) [][]byte { return [][]byte{reply(req, "192.0.2.1", nil)} }
func silent(*dns.Msg) [][]byte   { return nil }

func rcode(code int) func(*dns.Msg) [][]byte {
	return func(req *dns.Msg) [][]byte {
		return [][]byte{reply(req, "192.0.2.9", func(m *dns.Msg) { m.Answer = nil; m.Rcode = code })}
	}
}

var question = Question{Name: "www.test.", Type: dns.TypeA, Class: dns.ClassINET}

func exchangeWith(t *testing.T, patience time.Duration, peers ...*peer) (Response, error) {
	t.Helper()
	var addrs []netip.AddrPort
	for _, p := range peers {
		addrs = append(addrs, p.addr)
	}
	return New(Config{Servers: addrs, Patience: patience}).Exchange(t.Context(), question)
}

// TestForgeriesArePassedOver: what does not answer the question is ignored, and the real answer after it is taken.
func TestForgeriesArePassedOver(t *testing.T) {
	forged := func(edit func(*dns.Msg)) func(*dns.Msg) [][]byte {
		return func(req *dns.Msg) [][]byte {
			return [][]byte{reply(req, "10.6.6.6", edit), reply(req, "192.0.2.1", nil)}
		}
	}
	for name, udp := range map[string]func(*dns.Msg) [][]byte{
		"wrong id":       forged(func(m *dns.Msg) { m.Id++ }),
		"wrong name":     forged(func(m *dns.Msg) { m.Question[0].Name = "evil.test." }),
		"wrong type":     forged(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }),
		"wrong class":    forged(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }),
		"no question":    forged(func(m *dns.Msg) { m.Question = nil }),
		"two questions":  forged(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
		"not a response": forged(func(m *dns.Msg) { m.Response = false }),
		"wrong opcode":   forged(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }),
		"garbage": func(req *dns.Msg) [][]byte {
			return append([][]byte{{}, {1, 2, 3}, []byte(strings.Repeat("\xff", 600))}, good(req)...)
		},
		"cut in a record": func(req *dns.Msg) [][]byte {
			whole := reply(req, "10.6.6.6", nil)
			return append([][]byte{whole[:len(whole)-2]}, good(req)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPeer(t, udp, nil)
			r, err := exchangeWith(t, 2*time.Second, p)
			if err != nil || len(r.Msg.Answer) != 1 || !strings.Contains(r.Msg.Answer[0].String(), "192.0.2.1") {
				t.Fatalf("got %v, %v", r.Msg, err)
			}
			if p.asked.Load() != 1 {
				t.Errorf("asked %d times", p.asked.Load())
			}
		})
	}
}

// TestWrongSource: an answer that is right in all but its sender does not count.
func TestWrongSource(t *testing.T) {
	p := startPeer(t, silent, nil)
	forger, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer forger.Close()
	conn, err := net.Dial("udp", p.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(300 * time.Millisecond))
	req := request(question, true)
	wire, _ := req.Pack()
	if _, err := forger.WriteTo(reply(req, "10.6.6.6", nil), conn.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	if msg, err := overUDP(conn, wire, req); err == nil {
		t.Fatalf("took %v from a stranger", msg)
	}
}

func TestFailsOver(t *testing.T) {
	for name, first := range map[string]func(*dns.Msg) [][]byte{
		"silent": silent, "SERVFAIL": rcode(dns.RcodeServerFailure), "REFUSED": rcode(dns.RcodeRefused),
		"garbage": func(*dns.Msg) [][]byte { return [][]byte{{9, 9, 9}} },
	} {
		t.Run(name, func(t *testing.T) {
			bad, well := startPeer(t, first, nil), startPeer(t, good, nil)
			r, err := exchangeWith(t, 3*time.Second, bad, well)
			if err != nil || r.Server != well.addr || bad.asked.Load() == 0 {
				t.Fatalf("got %+v, %v", r, err)
			}
		})
	}
	t.Run("dead", func(t *testing.T) {
		gone, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		dead := &peer{addr: netip.MustParseAddrPort(gone.LocalAddr().String())}
		gone.Close()
		well := startPeer(t, good, nil)
		if r, err := exchangeWith(t, 3*time.Second, dead, well); err != nil || r.Server != well.addr {
			t.Fatalf("got %+v, %v", r, err)
		}
	})
}

// TestIllServersAreAskedLast: the second question does not wait for the server that was silent before.
func TestIllServersAreAskedLast(t *testing.T) {
	ill, well := startPeer(t, silent, nil), startPeer(t, good, nil)
	c := New(Config{Servers: []netip.AddrPort{ill.addr, well.addr}})
	for range 3 {
		if _, err := c.Exchange(t.Context(), question); err != nil {
			t.Fatal(err)
		}
	}
	if ill.asked.Load() != 1 || well.asked.Load() != 3 {
		t.Errorf("asked %d and %d times, want 1 and 3", ill.asked.Load(), well.asked.Load())
	}
}

func TestEachServerDeclinesOnce(t *testing.T) {
	a, b := startPeer(t, rcode(dns.RcodeRefused), nil), startPeer(t, rcode(dns.RcodeServerFailure), nil)
	r, err := exchangeWith(t, 3*time.Second, a, b)
	if err != nil || r.Msg.Rcode != dns.RcodeRefused || a.asked.Load() != 1 || b.asked.Load() != 1 {
		t.Errorf("got %v, %v; asked %d and %d times", r.Msg, err, a.asked.Load(), b.asked.Load())
	}
}

func TestPatienceEnds(t *testing.T) {
	p := startPeer(t, silent, nil)
	start := time.Now()
	_, err := exchangeWith(t, 1200*time.Millisecond, p)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), p.addr.String()) {
		t.Errorf("error %v, want one that names %s", err, p.addr)
	}
	if took := time.Since(start); took > 2*time.Second || p.asked.Load() != 2 {
		t.Errorf("took %v, asked %d times", took, p.asked.Load())
	}
}

func TestTruncation(t *testing.T) {
	cut := func(req *dns.Msg) [][]byte {
		return [][]byte{reply(req, "10.6.6.6", func(m *dns.Msg) { m.Answer = nil; m.Truncated = true })}
	}
	for name, udp := range map[string]func(*dns.Msg) [][]byte{
		"empty": cut,
		"in the middle of a record": func(req *dns.Msg) [][]byte {
			whole := reply(req, "10.6.6.6", func(m *dns.Msg) { m.Truncated = true })
			return [][]byte{whole[:len(whole)-3]}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPeer(t, udp, good)
			r, err := exchangeWith(t, 2*time.Second, p)
			if err != nil || r.Msg.Truncated || len(r.Msg.Answer) != 1 || p.viaTCP.Load() != 1 {
				t.Errorf("got %v, %v", r.Msg, err)
			}
		})
	}
	t.Run("TCP does not work", func(t *testing.T) {
		bad, well := startPeer(t, cut, nil), startPeer(t, good, nil)
		if r, err := exchangeWith(t, 3*time.Second, bad, well); err != nil || r.Server != well.addr {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}

func TestOldServerWithoutEDNS(t *testing.T) {
	p := startPeer(t, func(req *dns.Msg) [][]byte {
		if req.IsEdns0() != nil {
			return [][]byte{reply(req, "", func(m *dns.Msg) { m.Answer, m.Question, m.Rcode = nil, nil, dns.RcodeFormatError })}
		}
		return good(req)
	}, nil)
	if r, err := exchangeWith(t, 2*time.Second, p); err != nil || len(r.Msg.Answer) != 1 {
		t.Fatalf("got %v, %v", r.Msg, err)
	}
}

func TestRequest(t *testing.T) {
	p := startPeer(t, good, nil)
	c := New(Config{Servers: []netip.AddrPort{p.addr}})
	ids := map[uint16]bool{}
	for range 8 {
		if _, err := c.Exchange(t.Context(), Question{Name: "www.test.", Type: dns.TypeA, Class: dns.ClassINET, DO: true, CD: true}); err != nil {
			t.Fatal(err)
		}
		req := <-p.requests
		ids[req.Id] = true
		if opt := req.IsEdns0(); opt == nil || !opt.Do() || opt.UDPSize() != 1232 || !req.CheckingDisabled || !req.RecursionDesired {
			t.Fatalf("request %v", req)
		}
	}
	if len(ids) < 6 {
		t.Errorf("8 requests with only %d ids", len(ids))
	}
}

func TestCancel(t *testing.T) {
	p := startPeer(t, silent, nil)
	ctx, cancel := context.WithCancel(t.Context())
	c := New(Config{Servers: []netip.AddrPort{p.addr}})
	done := make(chan error, 1)
	go func() { _, err := c.Exchange(ctx, question); done <- err }()
	<-p.requests
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	case <-time.After(time.Second):
		t.Fatal("goes on after its context ended")
	}
}
