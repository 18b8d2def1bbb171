package dnsproxy

import (
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/dnsproxy/name"
)

func TestInsideAddressesAreTakenOut(t *testing.T) {
	a := startAuthority(t,
		"mixed.test. 60 IN A 169.254.169.254", "mixed.test. 60 IN A 192.0.2.1", "in.test. 60 IN A 10.0.0.1", "in.test. 60 IN AAAA ::ffff:10.0.0.1",
		"nat.test. 60 IN AAAA 64:ff9b::a9fe:a9fe", "to.test. 60 IN CNAME in.test.",
		"svc.test. 60 IN HTTPS 1 . ipv4hint=10.0.0.1,192.0.2.1 ipv6hint=fd00::1", "ok.test. 60 IN A 10.0.0.9",
	)
	var mu sync.Mutex
	var refusals []Refusal
	s := serve(t, unhurried(Config{
		Upstreams: []string{a.addr},
		Views: []View{
			{Name: "guarded", Refuse: func(host string, addr netip.Addr) bool {
				return host != "ok.test" && inside.Allowed{}.Refuses(host, addr)
			}},
			{Name: "open"},
		},
		OnRefuse: func(r Refusal) { mu.Lock(); refusals = append(refusals, r); mu.Unlock() },
	}))
	for _, c := range []struct {
		host string
		kind uint16
		want string
	}{
		{"mixed.test", dns.TypeA, "NOERROR | A 60 192.0.2.1"},
		{"in.test", dns.TypeA, "NOERROR"},
		{"in.test", dns.TypeAAAA, "NOERROR"},
		{"nat.test", dns.TypeAAAA, "NOERROR"},
		{"to.test", dns.TypeA, "NOERROR | CNAME 60 in.test."},
		{"svc.test", dns.TypeHTTPS, `NOERROR | HTTPS 60 1 . ipv4hint="192.0.2.1"`},
		{"ok.test", dns.TypeA, "NOERROR | A 60 10.0.0.9"},
	} {
		for range 2 {
			if got := show(ask(t, s, "guarded", c.host, c.kind)); got != c.want {
				t.Errorf("%s: got %s, want %s", c.host, got, c.want)
			}
		}
		if n := a.count(dns.Fqdn(c.host) + " " + dns.TypeToString[c.kind]); n != 1 {
			t.Errorf("%s: upstream was asked %d times", c.host, n)
		}
	}
	m := ask(t, s, "guarded", "in.test", dns.TypeA, edns(1232, false))
	if opt := m.IsEdns0(); opt == nil || len(opt.Option) != 1 || opt.Option[0].(*dns.EDNS0_EDE).InfoCode != dns.ExtendedErrorCodeFiltered {
		t.Errorf("EDNS %v", opt)
	}
	if got := show(ask(t, s, "open", "in.test", dns.TypeA)); got != "NOERROR | A 60 10.0.0.1" {
		t.Errorf("the other view: %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(refusals) != 6 || refusals[0].Host != "mixed.test" || refusals[0].View != "guarded" || refusals[0].Upstream.String() != a.addr ||
		!slices.Equal(refusals[0].Addresses, []netip.Addr{netip.MustParseAddr("169.254.169.254")}) {
		t.Errorf("refusals %+v", refusals)
	}
	if got := metric(t, s, "sallyport_dns_refused_addresses_total", "guarded"); got != 7 {
		t.Errorf("%v addresses counted, want 7", got)
	}
}

func TestPolicy(t *testing.T) {
	a := startAuthority(t, "bare.test. 60 IN A 192.0.2.1", "free.test. 60 IN A 192.0.2.2", "secret.exfil.test. 60 IN TXT x")
	var mu sync.Mutex
	var decisions []Decision
	s := serve(t, Config{
		Upstreams: []string{a.addr},
		Views: []View{{Name: "app", Names: true, Policy: func(q Question) Action {
			switch {
			case q.Known || q.Name == "free.test":
				return Forward
			case q.Name == "rude.test":
				return Refused
			default:
				return NXDomain
			}
		}}},
		OnDecision: func(d Decision) { mu.Lock(); decisions = append(decisions, d); mu.Unlock() },
	})
	_ = s.Names().Apply([]name.Name{named("bare.test", 0), named("vip.test", 0, "240.240.0.1")}, nil)
	s.Names().SetReady()
	for _, c := range []struct {
		host, want string
		kind       uint16
		from       Source
		addrs      int
	}{
		{"bare.test", "NOERROR | A 60 192.0.2.1", dns.TypeA, FromUpstream, 1},
		{"bare.test", "NOERROR | A 60 192.0.2.1", dns.TypeA, FromCache, 1},
		{"free.test", "NOERROR | A 60 192.0.2.2", dns.TypeA, FromUpstream, 1},
		{"vip.test", "NOERROR | A 30 240.240.0.1", dns.TypeA, FromTable, 1},
		{"vip.test", "NXDOMAIN", dns.TypeTXT, FromUpstream, 0},
		{"Secret.exfil.test", "NXDOMAIN", dns.TypeTXT, FromPolicy, 0},
		{"rude.test", "REFUSED", dns.TypeA, FromPolicy, 0},
	} {
		m, err := try(s, "tcp", "app", c.host, c.kind)
		if err != nil || show(m) != c.want {
			t.Errorf("%s: got %v, %v, want %s", c.host, m, err, c.want)
			continue
		}
		mu.Lock()
		d := decisions[len(decisions)-1]
		mu.Unlock()
		if d.View != "app" || d.Source != c.from || d.Rcode != m.Rcode || len(d.Answers) != c.addrs || d.Type != c.kind || !d.Client.IsValid() {
			t.Errorf("%s: decision %+v", c.host, d)
		}
	}
	if a.count("Secret.exfil.test. TXT")+a.count("secret.exfil.test. TXT")+a.count("rude.test. A") != 0 {
		t.Error("a refused name went upstream")
	}
}

// metric adds up the samples of one metric that have the label value.
func metric(t *testing.T, s *Server, name, label string) (sum float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			matches := family.GetName() == name && label == ""
			for _, pair := range m.GetLabel() {
				matches = matches || family.GetName() == name && pair.GetValue() == label
			}
			if matches {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
