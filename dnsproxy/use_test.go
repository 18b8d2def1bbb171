package dnsproxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// TestAnswersWaitForUse: what View.Use gives is waited for before a name is answered, from the table or from elsewhere, and
// once for each question; what it says nothing about is answered at once.
func TestAnswersWaitForUse(t *testing.T) {
	a := startAuthority(t, "other.test. 100 IN A 192.0.2.2")
	var mu sync.Mutex
	var told []string
	holds, held := make(chan struct{}), make(chan string, 10)
	s := serve(t, Config{Upstreams: []string{a.addr}, Views: []View{{
		Name: "app", Names: true, Search: []string{"ns.svc.cluster.local"}, Use: func(wire []byte) func(context.Context) error {
			host := packet.Text(wire)
			mu.Lock()
			defer mu.Unlock()
			if told = append(told, host); host == "at-once.test" {
				return nil
			}
			return func(context.Context) error {
				held <- host
				<-holds
				return nil
			}
		},
	}}})
	if err := s.Names().Apply(lines("a.test", "at-once.test"), nil); err != nil {
		t.Fatal(err)
	}
	s.Names().SetReady()

	if got := show(ask(t, s, "app", "at-once.test", dns.TypeA)); got != "NOERROR | A 30 240.240.0.1" {
		t.Errorf("what is there already: %s", got)
	}
	for _, c := range []struct{ network, host, means, want string }{
		{"udp", "A.test", "a.test", "NOERROR | A 30 240.240.0.1"},
		{"tcp", "a.test", "a.test", "NOERROR | A 30 240.240.0.1"},
		{"udp", "a.test.ns.svc.cluster.local", "a.test", "NOERROR | CNAME 30 a.test. | A 30 240.240.0.1"},
		{"udp", "other.test", "other.test", "NOERROR | A 100 192.0.2.2"},
	} {
		answer := make(chan string)
		go func() {
			m, err := try(s, c.network, "app", c.host, dns.TypeA)
			if err != nil {
				answer <- err.Error()
				return
			}
			answer <- show(m)
		}()
		if got := <-held; got != c.means {
			t.Errorf("%s: waited for %s, want %s", c.host, got, c.means)
		}
		select {
		case got := <-answer:
			t.Errorf("%s was answered before: %s", c.host, got)
		default:
		}
		holds <- struct{}{}
		if got := <-answer; got != c.want {
			t.Errorf("%s: %s, want %s", c.host, got, c.want)
		}
	}
	if m := ask(t, s, "app", "a.test", dns.TypeTXT); m.Rcode == dns.RcodeServerFailure {
		t.Errorf("a question that asks for no addresses: %s", show(m))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 5 {
		t.Errorf("told of %q, want each question once", told)
	}
}

// TestWhatCannotBeUsed: a registered name that cannot be used now is an error that says why; of other names nothing is said.
func TestWhatCannotBeUsed(t *testing.T) {
	a := startAuthority(t, "other.test. 100 IN A 192.0.2.2")
	s := serve(t, Config{Upstreams: []string{a.addr}, Views: []View{{
		Name: "app", Names: true, Use: func([]byte) func(context.Context) error {
			return func(context.Context) error { return errors.New("nobody is there") }
		},
	}}})
	if err := s.Names().Apply(lines("a.test"), nil); err != nil {
		t.Fatal(err)
	}
	s.Names().SetReady()
	m := ask(t, s, "app", "a.test", dns.TypeA)
	said := ""
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, is := o.(*dns.EDNS0_EDE); is {
				said = fmt.Sprint(e.InfoCode, " ", e.ExtraText)
			}
		}
	}
	if m.Rcode != dns.RcodeServerFailure || said != "" && said != "14 nobody is there" {
		t.Errorf("registered: %s, %q", show(m), said)
	}
	if got := show(ask(t, s, "app", "other.test", dns.TypeA)); got != "NOERROR | A 100 192.0.2.2" {
		t.Errorf("not registered: %s", got)
	}
}

// lines are lines of the table with the same address.
func lines(hosts ...string) (out []name.Name) {
	for _, host := range hosts {
		out = append(out, named(host, 0, "240.240.0.1"))
	}
	return out
}
