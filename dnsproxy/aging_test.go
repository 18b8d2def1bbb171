package dnsproxy

import (
	"testing"
	"time"

	"github.com/miekg/dns"
)

// aging serves the authority with a clock that the test moves.
func aging(t *testing.T, a *authority, config Config) (*Server, *clock, func(host, want string, asked int)) {
	t.Helper()
	c := newClock()
	config.Now, config.Upstreams = c.Now, []string{a.addr}
	s := serve(t, unhurried(config))
	return s, c, func(host, want string, asked int) {
		t.Helper()
		if got := show(ask(t, s, "resolver", host, dns.TypeA)); got != want {
			t.Errorf("%s: got %s, want %s", host, got, want)
		}
		if a.count(host+" A") < asked { // what is answered from before is answered while upstream is asked
			eventually(t, "upstream is asked", func() bool { return a.count(host+" A") >= asked })
		}
		if n := a.count(host + " A"); n != asked {
			t.Errorf("%s: upstream was asked %d times, want %d", host, n, asked)
		}
	}
}

func TestTTLsCountDown(t *testing.T) {
	a := startAuthority(t, "w.test. 10 IN A 192.0.2.1", "zero.test. 0 IN A 192.0.2.2", "c.test. 5 IN CNAME w.test.", "long.test. 9999999 IN A 192.0.2.3")
	_, clock, want := aging(t, a, Config{})
	want("w.test.", "NOERROR | A 10 192.0.2.1", 1)
	want("c.test.", "NOERROR | CNAME 5 w.test. | A 10 192.0.2.1", 1)
	want("long.test.", "NOERROR | A 86400 192.0.2.3", 1)
	for i := range 3 {
		want("zero.test.", "NOERROR | A 0 192.0.2.2", i+1)
	}
	clock.advance(4 * time.Second)
	want("w.test.", "NOERROR | A 6 192.0.2.1", 1)
	want("c.test.", "NOERROR | CNAME 1 w.test. | A 6 192.0.2.1", 1)
	clock.advance(time.Second)
	want("c.test.", "NOERROR | CNAME 5 w.test. | A 10 192.0.2.1", 2)
	clock.advance(4999 * time.Millisecond)
	want("w.test.", "NOERROR | A 1 192.0.2.1", 1)
	clock.advance(time.Millisecond)
	want("w.test.", "NOERROR | A 10 192.0.2.1", 2)
}

// TestTTLsAreCutForAView: what a view cuts off is asked for again sooner, by its clients, and of nobody else.
func TestTTLsAreCutForAView(t *testing.T) {
	a := startAuthority(t, "w.test. 3600 IN A 192.0.2.1", "short.test. 5 IN A 192.0.2.2", "c.test. 7200 IN CNAME w.test.")
	_, clock, want := aging(t, a, Config{Views: []View{{Name: "resolver", MaxTTL: 30 * time.Second}}})
	for range 2 {
		want("w.test.", "NOERROR | A 30 192.0.2.1", 1)
		want("c.test.", "NOERROR | CNAME 30 w.test. | A 30 192.0.2.1", 1)
		clock.advance(time.Minute)
	}
	want("short.test.", "NOERROR | A 5 192.0.2.2", 1)
	clock.advance(57*time.Minute + 50*time.Second)
	want("w.test.", "NOERROR | A 10 192.0.2.1", 1)
	clock.advance(10 * time.Second)
	want("w.test.", "NOERROR | A 30 192.0.2.1", 2)
}

func TestNegativeAnswers(t *testing.T) {
	for _, c := range []struct {
		name, soa string
		keep      time.Duration
	}{
		{"the last field is less", "test. 300 IN SOA a. b. 1 2 3 4 60", 60 * time.Second},
		{"the TTL is less", "test. 20 IN SOA a. b. 1 2 3 4 60", 20 * time.Second},
		{"cut off", "test. 99999 IN SOA a. b. 1 2 3 4 99999", 15 * time.Minute},
		{"no SOA", "test. 300 IN NS a.", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := startAuthority(t, "txt.test. 60 IN TXT x", "to.test. 999999 IN CNAME gone.test.")
			a.deny(record(t, c.soa))
			s, clock, want := aging(t, a, Config{})
			again := 1
			if c.keep == 0 {
				again = 2
			}
			hosts := map[string]string{"gone.test.": "NXDOMAIN", "txt.test.": "NOERROR", "to.test.": "NXDOMAIN | CNAME 86400 gone.test."}
			for host, answer := range hosts {
				want(host, answer, 1)
			}
			if m := ask(t, s, "resolver", "gone.test", dns.TypeAAAA); c.keep > 0 && time.Duration(m.Ns[0].Header().Ttl)*time.Second != c.keep {
				t.Errorf("the SOA's TTL is %d", m.Ns[0].Header().Ttl)
			}
			want("gone.test.", "NXDOMAIN", again)
			clock.advance(c.keep)
			want("gone.test.", "NXDOMAIN", again+1)
		})
	}
}

// breakDown makes the authority answer SERVFAIL.
func breakDown(a *authority) {
	a.answerWith(func(w dns.ResponseWriter, req *dns.Msg) bool {
		m := new(dns.Msg)
		m.SetRcode(req, dns.RcodeServerFailure)
		_ = w.WriteMsg(m)
		return true
	})
}

func TestFailuresAreRememberedBriefly(t *testing.T) {
	a := startAuthority(t, "w.test. 10 IN A 192.0.2.1")
	breakDown(a)
	_, clock, want := aging(t, a, Config{})
	want("w.test.", "SERVFAIL", 1)
	want("w.test.", "SERVFAIL", 1)
	a.answerWith(nil)
	clock.advance(2 * time.Second)
	want("w.test.", "NOERROR | A 10 192.0.2.1", 2)
}

func TestStaleAnswers(t *testing.T) {
	a := startAuthority(t, "w.test. 10 IN A 192.0.2.1")
	s, clock, want := aging(t, a, Config{})
	want("w.test.", "NOERROR | A 10 192.0.2.1", 1)
	want("gone.test.", "NXDOMAIN", 1)
	breakDown(a)
	clock.advance(10 * time.Second)
	want("w.test.", "NOERROR | A 30 192.0.2.1", 2)
	want("w.test.", "NOERROR | A 30 192.0.2.1", 2) // not asked again for 30 s
	m := ask(t, s, "resolver", "w.test", dns.TypeA, edns(1232, false))
	if opt := m.IsEdns0(); opt == nil || len(opt.Option) != 1 || opt.Option[0].(*dns.EDNS0_EDE).InfoCode != dns.ExtendedErrorCodeStaleAnswer {
		t.Errorf("EDNS %v", opt)
	}
	clock.advance(60 * time.Second)
	want("gone.test.", "NXDOMAIN", 2)
	want("w.test.", "NOERROR | A 30 192.0.2.1", 3)
	a.answerWith(nil)
	clock.advance(30 * time.Second)
	want("w.test.", "NOERROR | A 10 192.0.2.1", 4)
	breakDown(a)
	clock.advance(time.Hour + 10*time.Second)
	want("w.test.", "SERVFAIL", 5)
}

func TestStaleAnswersCanBeOff(t *testing.T) {
	a := startAuthority(t, "w.test. 10 IN A 192.0.2.1")
	_, clock, want := aging(t, a, Config{MaxStale: -1})
	want("w.test.", "NOERROR | A 10 192.0.2.1", 1)
	breakDown(a)
	clock.advance(10 * time.Second)
	want("w.test.", "SERVFAIL", 2)
}

// TestSlowUpstream: the client gets the stale answer early, and the late fresh one is kept.
func TestSlowUpstream(t *testing.T) {
	a := startAuthority(t, "w.test. 10 IN A 192.0.2.1")
	s, clock, want := aging(t, a, Config{StaleAfter: 10 * time.Millisecond})
	want("w.test.", "NOERROR | A 10 192.0.2.1", 1)
	gate := make(chan struct{})
	a.answerWith(func(dns.ResponseWriter, *dns.Msg) bool { <-gate; return false })
	clock.advance(10 * time.Second)
	want("w.test.", "NOERROR | A 30 192.0.2.1", 2)
	want("w.test.", "NOERROR | A 30 192.0.2.1", 2)
	close(gate)
	eventually(t, "the fresh answer is kept", func() bool {
		return show(ask(t, s, "resolver", "w.test", dns.TypeA)) == "NOERROR | A 10 192.0.2.1"
	})
}

func TestPrefetch(t *testing.T) {
	a := startAuthority(t, "w.test. 100 IN A 192.0.2.1")
	s, clock, want := aging(t, a, Config{Prefetch: true})
	want("w.test.", "NOERROR | A 100 192.0.2.1", 1)
	clock.advance(89 * time.Second)
	want("w.test.", "NOERROR | A 11 192.0.2.1", 1)
	clock.advance(2 * time.Second)
	if got := show(ask(t, s, "resolver", "w.test", dns.TypeA)); got != "NOERROR | A 9 192.0.2.1" {
		t.Errorf("got %s", got)
	}
	eventually(t, "fetched ahead", func() bool { return a.count("w.test. A") == 2 })
	eventually(t, "kept", func() bool { return show(ask(t, s, "resolver", "w.test", dns.TypeA)) == "NOERROR | A 100 192.0.2.1" })
}

// patience is how long a test waits for what must happen, however loaded the machine is.
const patience = time.Minute

// eventually polls for what another goroutine will do.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("it never came: %s", what)
		}
	}
}
