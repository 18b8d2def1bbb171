package dnsproxy

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/dnsproxy/hostile"
)

// TestAliasesAreFollowed: an authoritative server that a domain is forwarded to does not leave its zones.
func TestAliasesAreFollowed(t *testing.T) {
	corp := startAuthority(t, "a.corp.test. 60 IN CNAME b.other.test.", "gone.corp.test. 60 IN CNAME gone.test.", "in.corp.test. 60 IN CNAME in.test.",
		"none.corp.test. 60 IN CNAME b.other.test.")
	corp.answerWith(func(w dns.ResponseWriter, req *dns.Msg) bool { // not recursive: no records, no denial
		m := corp.fromZone(req)
		m.Ns, m.Rcode = nil, dns.RcodeSuccess
		_ = w.WriteMsg(m)
		return true
	})
	base := startAuthority(t, "b.other.test. 30 IN CNAME c.test.", "c.test. 20 IN A 192.0.2.1", "in.test. 60 IN A 10.0.0.1")
	s := serve(t, Config{Upstreams: []string{base.addr}, Forward: map[string][]string{"corp.test": {corp.addr}}, Views: []View{{Name: "resolver", Refuse: inside.Allowed{}.Refuses}}})
	for _, c := range []struct {
		host string
		kind uint16
		want string
	}{
		{"a.corp.test", dns.TypeA, "NOERROR | CNAME 60 b.other.test. | CNAME 30 c.test. | A 20 192.0.2.1"},
		{"a.corp.test", dns.TypeCNAME, "NOERROR | CNAME 60 b.other.test."},
		{"gone.corp.test", dns.TypeA, "NXDOMAIN | CNAME 60 gone.test."},
		{"none.corp.test", dns.TypeAAAA, "NOERROR | CNAME 60 b.other.test. | CNAME 30 c.test."},
		{"in.corp.test", dns.TypeA, "NOERROR | CNAME 60 in.test."}, // the guard sees what was followed
	} {
		if got := show(ask(t, s, "resolver", c.host, c.kind)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.host, got, c.want)
		}
	}
}

// TestEndlessAliases: loops and chains without end are failures, soon and once.
func TestEndlessAliases(t *testing.T) {
	for name, behave := range map[string]hostile.Behaviour{"a loop": hostile.Loop, "ever longer": hostile.Endless} {
		t.Run(name, func(t *testing.T) {
			p := hostile.Start(t, hostile.Config{UDP: behave})
			s := serve(t, Config{Upstreams: []string{p.Addr.String()}})
			for range 2 {
				if got := show(ask(t, s, "resolver", "www.test", dns.TypeA)); got != "SERVFAIL" {
					t.Errorf("got %s", got)
				}
			}
			if n := len(p.Asked("")); n > maxChase+1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
