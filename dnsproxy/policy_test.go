package dnsproxy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/dnsproxy/limit"
	"github.com/sallyport/sallyport/dnsproxy/name"
)

// decided collects decisions.
type decided struct {
	mu  sync.Mutex
	all []Decision
}

func (d *decided) note(one Decision) { d.mu.Lock(); defer d.mu.Unlock(); d.all = append(d.all, one) }

func (d *decided) last() Decision { d.mu.Lock(); defer d.mu.Unlock(); return d.all[len(d.all)-1] }

func TestUnregisteredNames(t *testing.T) {
	a := startAuthority(t, "bare.test. 60 IN A 192.0.2.1", "ext.test. 60 IN A 192.0.2.2", "late.test. 60 IN A 192.0.2.3",
		"a.ns.svc.cluster.local. 60 IN A 10.96.0.9", "9.0.96.10.in-addr.arpa. 60 IN PTR a.ns.svc.cluster.local.",
		"8.8.8.8.in-addr.arpa. 60 IN PTR dns.google.", "notcluster.local. 60 IN A 192.0.2.4")
	var decisions decided
	s := serve(t, Config{Upstreams: []string{a.addr}, OnDecision: decisions.note, Views: []View{{Name: "app", Names: true, Search: []string{"ns.svc.cluster.local"}}}})
	_ = s.Names().Apply([]name.Name{named("bare.test", 0), named("vip.test", 0, "240.240.0.1"), named("*.wild.test", 0, "240.240.0.2")}, nil)
	s.Names().SetReady()
	if got := show(ask(t, s, "app", "ext.test", dns.TypeA)); got != "NOERROR | A 60 192.0.2.2" {
		t.Errorf("without a policy: %s", got)
	}
	refuse := Policy{RefuseUnregistered: true, Refusal: "refused by so-and-so", Local: []string{"cluster.local"}, LocalReverse: true, Known: func(host string) bool { return host == "late.test" }}
	if err := s.SetPolicy("app", refuse); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host string
		kind uint16
		want string
		from Source
	}{
		{"ext.test", dns.TypeA, "NXDOMAIN", FromPolicy}, // also what is in the cache
		{"secret.exfil.test", dns.TypeTXT, "NXDOMAIN", FromPolicy},
		{"bare.test", dns.TypeA, "NOERROR | A 60 192.0.2.1", FromUpstream},
		{"vip.test", dns.TypeA, "NOERROR | A 30 240.240.0.1", FromTable},
		{"a.b.wild.test", dns.TypeA, "NOERROR | A 30 240.240.0.2", FromTable},
		{"LATE.test", dns.TypeA, "NOERROR | A 60 192.0.2.3", FromUpstream},
		{"vip.test.ns.svc.cluster.local", dns.TypeA, "NOERROR | CNAME 30 vip.test. | A 30 240.240.0.1", FromTable},
		{"ext.test.ns.svc.cluster.local", dns.TypeA, "NXDOMAIN", FromUpstream}, // the cluster's DNS says so
		{"a.ns.svc.cluster.local", dns.TypeA, "NOERROR | A 60 10.96.0.9", FromUpstream},
		{"notcluster.local", dns.TypeA, "NXDOMAIN", FromPolicy},
		{"9.0.96.10.in-addr.arpa", dns.TypePTR, "NOERROR | PTR 60 a.ns.svc.cluster.local.", FromUpstream},
		{"9.0.96.10.in-addr.arpa", dns.TypeA, "NXDOMAIN", FromPolicy}, // addresses are asked about, and nothing else is asked so
		{"1.2.3.10.in-addr.arpa", dns.TypeTXT, "NXDOMAIN", FromPolicy},
		{reverse(t, "fd00::2"), dns.TypeAAAA, "NXDOMAIN", FromPolicy},
		{"8.8.8.8.in-addr.arpa", dns.TypePTR, "NXDOMAIN", FromPolicy},
		{"secret.10.in-addr.arpa", dns.TypePTR, "NXDOMAIN", FromPolicy},
		{reverse(t, "fd00::1"), dns.TypePTR, "NXDOMAIN", FromUpstream},
		{reverse(t, "2606:4700::1111"), dns.TypePTR, "NXDOMAIN", FromPolicy},
	} {
		got := show(ask(t, s, "app", c.host, c.kind))
		d := decisions.last()
		denied := c.from == FromPolicy
		if got != c.want || d.Source != c.from || (d.Verdict == Denied) != denied || (d.Reason != "") != denied {
			t.Errorf("%s %s: got %s from %v (%s: %s), want %s from %v", c.host, dns.TypeToString[c.kind], got, d.Source, d.Verdict, d.Reason, c.want, c.from)
		}
	}
	for _, host := range []string{"secret.exfil.test.", "secret.10.in-addr.arpa.", "1.2.3.10.in-addr.arpa."} {
		if a.count(host+" TXT")+a.count(host+" PTR") != 0 {
			t.Errorf("%s went upstream", host)
		}
	}
	refused := ask(t, s, "app", "other.exfil.test", dns.TypeA, func(m *dns.Msg) { m.SetEdns0(1232, false) })
	if o := refused.IsEdns0(); o == nil || len(o.Option) != 1 || !strings.Contains(o.Option[0].String(), "refused by so-and-so") {
		t.Errorf("what is refused says %v", o)
	}
	if err := s.SetPolicy("app", Policy{}); err != nil {
		t.Fatal(err)
	}
	if got := show(ask(t, s, "app", "notcluster.local", dns.TypeA)); got != "NOERROR | A 60 192.0.2.4" {
		t.Errorf("after the policy has gone: %s", got)
	}
	if s.SetPolicy("none", Policy{}) == nil || s.SetPolicy("app", Policy{Local: []string{"a..b"}}) == nil {
		t.Error("a policy for no view, or for no domain, is taken")
	}
}

func TestClientsAreLimited(t *testing.T) {
	a := startAuthority(t, "w.test. 600 IN A 192.0.2.1")
	c := newClock()
	var decisions decided
	s := serve(t, Config{Upstreams: []string{a.addr}, Now: c.Now, OnDecision: decisions.note})
	err := s.SetPolicy("resolver", Policy{Upstream: limit.Rate{PerSecond: 10, Burst: 20}, Odd: limit.Rate{PerSecond: 1, Burst: 2}})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	next := func(kind uint16) string {
		asked++
		return show(ask(t, s, "resolver", fmt.Sprintf("n%d.test", asked), kind))
	}
	for i, want := range []string{"NXDOMAIN", "NXDOMAIN", "SERVFAIL", "SERVFAIL"} {
		if got := next(dns.TypeTXT); got != want {
			t.Errorf("odd question %d: %s, want %s", i, got, want)
		}
	}
	if d := decisions.last(); d.Source != FromLimit || d.Verdict != Denied || d.Reason != reasonsOdd[limit.Type] {
		t.Errorf("decision %+v", d)
	}
	if got := show(ask(t, s, "resolver", "w.test", dns.TypeA)); got != "NOERROR | A 600 192.0.2.1" {
		t.Errorf("an honest question: %s", got)
	}
	for range 17 {
		if got := next(dns.TypeA); got != "NXDOMAIN" {
			t.Fatalf("question %d: %s", asked, got)
		}
	}
	if got := next(dns.TypeA); got != "SERVFAIL" || decisions.last().Reason != reasonRate {
		t.Errorf("above the rate: %s", got)
	}
	for range 50 { // what is in the cache is free
		if got := show(ask(t, s, "resolver", "w.test", dns.TypeA)); got != "NOERROR | A 600 192.0.2.1" {
			t.Fatalf("from memory: %s", got)
		}
	}
	c.advance(time.Second)
	if got := next(dns.TypeA); got != "NXDOMAIN" {
		t.Errorf("after a second: %s", got)
	}
	if got := metric(t, s, "sallyport_dns_odd_questions_total", "type"); got != 4 {
		t.Errorf("%v odd questions counted", got)
	}
}

// TestFilteredIsDenied: an answer that the guard has emptied is a denial, one that it has thinned out is not.
func TestFilteredIsDenied(t *testing.T) {
	a := startAuthority(t, "mixed.test. 60 IN A 169.254.169.254", "mixed.test. 60 IN A 192.0.2.1", "in.test. 60 IN A 10.0.0.1")
	var decisions decided
	s := serve(t, Config{Upstreams: []string{a.addr}, OnDecision: decisions.note, Views: []View{{Name: "resolver", Refuse: inside.Allowed{}.Refuses}}})
	for host, want := range map[string]Verdict{"mixed.test": Allowed, "in.test": Denied} {
		for range 2 {
			ask(t, s, "resolver", host, dns.TypeA)
			if d := decisions.last(); !d.Filtered || d.Verdict != want || d.Rcode != dns.RcodeSuccess {
				t.Errorf("%s: %+v", host, d)
			}
		}
	}
}
