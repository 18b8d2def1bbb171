package upstream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/hostile"
)

// TestFastestFirst: the slower server is left as soon as the faster one is known to be faster.
func TestFastestFirst(t *testing.T) {
	gate := make(chan struct{})
	slow := hostile.Start(t, hostile.Config{UDP: func(w *hostile.Writer, req *dns.Msg) {
		select {
		case <-gate:
			hostile.Answer(truth)(w, req)
		case <-w.Closed:
		}
	}})
	fast := hostile.Start(t, hostile.Config{UDP: hostile.Answer(truth)})
	c := client(t, Config{Servers: of(slow, fast)})
	first := make(chan error, 1)
	go func() {
		_, err := c.Exchange(t.Context(), question)
		first <- err
	}()
	eventually(t, "the faster one is measured", func() bool { return c.Status()[0].Server.Addr == fast.Addr })
	close(gate)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	for _, p := range *c.peers.Load() {
		if p.Addr == slow.Addr { // a time that nothing on this machine takes by accident
			p.mu.Lock()
			p.srtt = time.Hour
			p.mu.Unlock()
		}
	}
	before := len(slow.Asked("www.test"))
	for range 20 {
		r, err := c.Exchange(t.Context(), question)
		right(t, r, err)
	}
	if n := len(slow.Asked("www.test")) - before; n != 0 {
		t.Errorf("the slow server was asked %d times of 20", n)
	}
}

// TestHedge: while one server takes its time, another one answers.
func TestHedge(t *testing.T) {
	slow := hostile.Start(t, hostile.Config{}) // it would be given up after a minute
	fast := hostile.Start(t, hostile.Config{UDP: hostile.Answer(truth)})
	var beaten atomic.Bool
	r, err := client(t, Config{Servers: of(slow, fast), Observe: func(s Server, _ time.Duration, err error) {
		if s.Addr == slow.Addr {
			beaten.Store(errors.Is(err, ErrBeaten))
		}
	}}, hedges).Exchange(t.Context(), question)
	right(t, r, err)
	eventually(t, "the first was beaten", beaten.Load)
}

// TestProbesFindRecovery: an ill server is found well again without a question waiting for it.
func TestProbesFindRecovery(t *testing.T) {
	well := make(chan struct{})
	good := hostile.Answer(truth)
	a := hostile.Start(t, hostile.Config{UDP: func(w *hostile.Writer, req *dns.Msg) {
		select {
		case <-well:
			good(w, req)
		default:
			hostile.Rcode(dns.RcodeSuccess)(w, req.SetReply(req)) // no answer to it
		}
	}})
	b := hostile.Start(t, hostile.Config{UDP: good})
	c := client(t, Config{Servers: of(a, b)})
	now := time.Now()
	fallIll(c, a, now)
	close(well)
	if r, err := c.Exchange(t.Context(), question); err != nil || r.Server.Addr != b.Addr {
		t.Fatalf("%v, %v", r.Server, err)
	}
	c.probe(inOrder(*c.peers.Load()), question, now.Add(probeIll))
	eventually(t, "well again", func() bool {
		for _, s := range c.Status() {
			if s.Server.Addr == a.Addr {
				return !s.Ill
			}
		}
		return false
	})
}

// fallIll makes a client take a server for one that has not answered.
func fallIll(c *Client, s *hostile.Server, now time.Time) {
	for _, p := range *c.peers.Load() {
		if p.Addr == s.Addr {
			p.mu.Lock()
			p.note(time.Second, errors.New("as if"), now)
			p.mu.Unlock()
		}
	}
}

func TestHealth(t *testing.T) {
	var h health
	now := time.Unix(1000, 0)
	if h.class() != 50 {
		t.Error("an unknown server is not in the middle")
	}
	h.note(3*time.Millisecond, nil, now)
	if h.class() != 2 || usualPace.hedge(&h) != 200*time.Millisecond || h.nextProbe != now.Add(probeWell) {
		t.Errorf("%+v", h)
	}
	h.note(time.Second, context.Canceled, now)
	if h.class() != 2 {
		t.Error("to be interrupted counts")
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		h.note(time.Second, context.DeadlineExceeded, now)
		if h.class() != 100 || h.nextProbe != now.Add(want*time.Second) {
			t.Errorf("failure %d: %+v", i+1, h)
		}
	}
	h.note(3*time.Millisecond, ErrDeclined, now)
	if h.class() != 2 {
		t.Errorf("to decline is to be ill: %+v", h)
	}
	h.beaten(400*time.Millisecond, now)
	if h.class() < 9 || h.nextProbe != now {
		t.Errorf("%+v", h)
	}
}

func TestParseServer(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1:53", "192.0.2.1:5300": "192.0.2.1:5300", "2001:db8::1": "[2001:db8::1]:53", "[2001:db8::1]": "[2001:db8::1]:53",
		"udp://192.0.2.1": "192.0.2.1:53", "tcp://192.0.2.1": "tcp://192.0.2.1:53", "TLS://192.0.2.1": "tls://192.0.2.1:853",
		"tls://192.0.2.1:8853#dns.example.": "tls://192.0.2.1:8853#dns.example", " ::ffff:192.0.2.1 ": "192.0.2.1:53",
	} {
		s, err := ParseServer(text)
		if err != nil || s.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, s, err, want)
		}
		if again, err := ParseServer(s.String()); err != nil || again != s {
			t.Errorf("%v is read back as %v, %v", s, again, err)
		}
	}
	for _, text := range []string{"", "dns.example", "https://192.0.2.1", "192.0.2.1:0", "192.0.2.1#dns.example", "tls://192.0.2.1#", "tls://dns.example", "tls://192.0.2.1#a b"} {
		if s, err := ParseServer(text); err == nil {
			t.Errorf("%q is taken for %v", text, s)
		}
	}
}
