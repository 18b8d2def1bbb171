package dnsproxy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/name"
)

func aliased(n name.Name, aliases ...string) name.Name {
	n.Aliases = aliases
	return n
}

// app serves a ready name table in front of upstream.
func app(t *testing.T, upstream string, view View, names ...name.Name) *Server {
	t.Helper()
	view.Name, view.Names = "app", true
	s := serve(t, Config{Upstreams: []string{upstream}, Views: []View{view, {Name: "resolver"}}})
	if err := s.Names().Apply(names, nil); err != nil {
		t.Fatal(err)
	}
	s.Names().SetReady()
	return s
}

func TestNameTable(t *testing.T) {
	a := startAuthority(t, "external.com. 60 IN A 192.0.2.66", "external.com. 60 IN TXT real", "bare.test. 60 IN A 192.0.2.67",
		"example.com. 60 IN A 192.0.2.68")
	s := app(t, a.addr, View{Search: []string{"ns.svc.cluster.local", "com"}},
		named("External.COM", 45, "240.240.0.1", "240.240.0.2", "2001:2::1"),
		named("v4.test", 0, "240.240.0.3"),
		named("v6.test", 0, "2001:2::4"),
		named("*.example.com", 0, "240.240.0.5"),
		named("*.deep.example.com", 0, "240.240.0.6"),
		named("known.example.com", 0, "240.240.0.7"),
		named("bare.test", 0),
		aliased(named("a.ns.svc.cluster.local", 0, "240.240.0.8"), "a", "a.ns", "*.wild.alias"),
		aliased(named("b.test", 0, "240.240.0.9"), "v4.test", "a.ns"),
	)
	for _, c := range []struct {
		host string
		kind uint16
		want string
	}{
		{"external.com", dns.TypeA, "NOERROR | A 45 240.240.0.1 | A 45 240.240.0.2"},
		{"EXTERNAL.com", dns.TypeAAAA, "NOERROR | AAAA 45 2001:2::1"},
		{"external.com", dns.TypeANY, "NOERROR | A 45 240.240.0.1 | A 45 240.240.0.2 | AAAA 45 2001:2::1"},
		{"external.com", dns.TypeHTTPS, "NOERROR"},
		{"external.com", dns.TypeCNAME, "NOERROR"},
		{"external.com", dns.TypeTXT, `NOERROR | TXT 60 "real"`},
		{"v4.test", dns.TypeAAAA, "NOERROR"},
		{"v6.test", dns.TypeA, "NOERROR"},
		{"v4.test", dns.TypeA, "NOERROR | A 30 240.240.0.3"}, // the host, not b.test's alias
		{"x.example.com", dns.TypeA, "NOERROR | A 30 240.240.0.5"},
		{"x.y.example.com", dns.TypeA, "NOERROR | A 30 240.240.0.5"},
		{"x.y.deep.example.com", dns.TypeA, "NOERROR | A 30 240.240.0.6"},
		{"deep.example.com", dns.TypeA, "NOERROR | A 30 240.240.0.5"},
		{"known.example.com", dns.TypeA, "NOERROR | A 30 240.240.0.7"},
		{"example.com", dns.TypeA, "NOERROR | A 60 192.0.2.68"}, // not below itself
		{"notexample.com", dns.TypeA, "NXDOMAIN"},
		{"bare.test", dns.TypeA, "NOERROR | A 60 192.0.2.67"},
		{"a", dns.TypeA, "NOERROR | A 30 240.240.0.8"},
		{"a.ns", dns.TypeA, "NOERROR | A 30 240.240.0.8"}, // the first host in order
		{"x.wild.alias", dns.TypeA, "NOERROR | A 30 240.240.0.8"},
		{"1.0.240.240.in-addr.arpa", dns.TypePTR, "NOERROR | PTR 45 external.com."},
		{strings.TrimSuffix(reverse(t, "2001:2::1"), "."), dns.TypePTR, "NOERROR | PTR 45 external.com."},
		{"1.0.240.240.in-addr.arpa", dns.TypeA, "NOERROR"}, // the name is there, and no host
		{"1.0.240.240.in-addr.arpa", dns.TypeTXT, "NOERROR"},
		{"1.0.240.240.in-addr.arpa", dns.TypeANY, "NOERROR | PTR 45 external.com."},
		{strings.TrimSuffix(reverse(t, "2001:2::1"), "."), dns.TypeAAAA, "NOERROR"},
		{"1.0.240.240.in-addr.arpa.ns.svc.cluster.local", dns.TypeA, "NXDOMAIN"},                                                   // nor a guess
		{"5.0.240.240.in-addr.arpa", dns.TypePTR, "NXDOMAIN"},                                                                      // a wildcard is nobody's name
		{"external.com.ns.svc.cluster.local", dns.TypeA, "NOERROR | CNAME 45 external.com. | A 45 240.240.0.1 | A 45 240.240.0.2"}, // a client's guess
		{"v4.test.ns.svc.cluster.local", dns.TypeAAAA, "NOERROR | CNAME 30 v4.test."},
		{"other.com.ns.svc.cluster.local", dns.TypeA, "NXDOMAIN"},
		{"a.com", dns.TypeA, "NXDOMAIN"}, // one label is no guess
		{".", dns.TypeA, "NXDOMAIN"},
	} {
		if got := show(ask(t, s, "app", c.host, c.kind)); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.host, dns.TypeToString[c.kind], got, c.want)
		}
	}
	if n := a.count("1.0.240.240.in-addr.arpa. A") + a.count("1.0.240.240.in-addr.arpa. TXT"); n != 0 {
		t.Errorf("%d questions for a reverse name of the table went upstream", n)
	}
	if got := show(ask(t, s, "resolver", "external.com", dns.TypeA)); got != "NOERROR | A 60 192.0.2.66" {
		t.Errorf("the resolver's view: %s", got)
	}
}

func TestApplyChangesAndRemoves(t *testing.T) {
	a := startAuthority(t)
	s := app(t, a.addr, View{}, aliased(named("one.test", 0, "240.240.0.1"), "uno.test"), aliased(named("two.test", 0, "240.240.0.2"), "uno.test"))
	want := func(host, want string) {
		t.Helper()
		if got := show(ask(t, s, "app", host, dns.TypeA)); got != want {
			t.Errorf("%s: got %s, want %s", host, got, want)
		}
	}
	want("uno.test", "NOERROR | A 30 240.240.0.1")
	if err := s.Names().Apply([]name.Name{named("three.test", 0, "240.240.0.3")}, []string{"ONE.test.", "unknown.test"}); err != nil {
		t.Fatal(err)
	}
	want("one.test", "NXDOMAIN")
	want("uno.test", "NOERROR | A 30 240.240.0.2")
	want("three.test", "NOERROR | A 30 240.240.0.3")
	err := s.Names().Apply([]name.Name{named("bad..test", 0), named("two.test", 0, "240.240.0.4")}, nil)
	if err == nil || !strings.Contains(err.Error(), `"bad..test"`) {
		t.Errorf("error %v", err)
	}
	want("two.test", "NOERROR | A 30 240.240.0.4")
	want("uno.test", "NXDOMAIN")
	if s.Names().Len() != 2 {
		t.Errorf("%d hosts, want 2", s.Names().Len())
	}
}

// TestApplyOrderDoesNotMatter: the same names give the same answers, whatever the order and the detours.
func TestApplyOrderDoesNotMatter(t *testing.T) {
	var names []name.Name
	for i := range 40 {
		names = append(names, aliased(named(fmt.Sprintf("h%d.test", i), 0, fmt.Sprintf("240.240.0.%d", i%7)), fmt.Sprintf("alias%d", i%5), "all"))
	}
	answers := func(t *Table) string {
		var out strings.Builder
		n := t.state.Load().to("")
		for _, q := range []string{"all", "alias0", "alias1", "alias4", "h3.test"} {
			fmt.Fprintln(&out, q, n.find(wireName(q)).host)
		}
		for i := range 7 {
			fmt.Fprintln(&out, i, n.holder(netip.AddrFrom4([4]byte{240, 240, 0, byte(i)})).host)
		}
		return out.String()
	}
	var want string
	for round := range 50 {
		table, r := newTable(), rand.New(rand.NewPCG(1, uint64(round)))
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for i, n := range names {
			detour := n
			detour.Aliases = []string{"elsewhere", "all"}
			_ = table.Apply([]name.Name{detour}, nil)
			_ = table.Apply([]name.Name{n}, []string{names[(i+1)%len(names)].Host})
		}
		_ = table.Apply(names, nil)
		got := answers(table)
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("round %d:\n%s\nwant\n%s", round, got, want)
		}
	}
}

func TestQuestionsWaitForTheTable(t *testing.T) {
	a := startAuthority(t)
	s := serve(t, Config{Upstreams: []string{a.addr}, Views: []View{{Name: "app", Names: true}}})
	type result struct {
		m   *dns.Msg
		err error
	}
	got := make(chan result, 2)
	for _, network := range []string{"udp", "tcp"} {
		go func() {
			m, err := try(s, network, "app", "external.com", dns.TypeA)
			got <- result{m, err}
		}()
	}
	eventually(t, "both questions wait", func() bool { return s.slots.Taken() == 2 })
	if err := s.Names().Apply([]name.Name{named("external.com", 0, "240.240.0.1")}, nil); err != nil {
		t.Fatal(err)
	}
	s.Names().SetReady()
	s.Names().SetReady() // twice is once
	for range 2 {
		if r := <-got; r.err != nil || show(r.m) != "NOERROR | A 30 240.240.0.1" {
			t.Errorf("got %v, %v", r.m, r.err)
		}
	}
}

func TestWithoutTableNothingIsGone(t *testing.T) {
	a := startAuthority(t)
	s := serve(t, Config{Upstreams: []string{a.addr}, HoldBack: 20 * time.Millisecond, Views: []View{{Name: "app", Names: true}}})
	if got := show(ask(t, s, "app", "external.com", dns.TypeA)); got != "SERVFAIL" {
		t.Errorf("got %s", got)
	}
	if a.count("external.com. A") != 0 {
		t.Error("upstream was asked before the table had come")
	}
}
