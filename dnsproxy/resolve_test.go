package dnsproxy

import (
	"testing"

	"github.com/miekg/dns"
)

func TestAnswersFromUpstreamAndCache(t *testing.T) {
	a := startAuthority(t,
		"www.test. 300 IN A 192.0.2.1", "www.test. 300 IN A 192.0.2.2", "www.test. 300 IN AAAA 2001:db8::1",
		"alias.test. 60 IN CNAME www.test.", "txt.test. 30 IN TXT hello", "_s._tcp.test. 30 IN SRV 1 2 443 www.test.",
		"1.2.0.192.in-addr.arpa. 30 IN PTR www.test.", "svc.test. 30 IN HTTPS 1 . alpn=h2",
	)
	s := serve(t, unhurried(Config{Upstreams: []string{a.addr}}))
	for _, c := range []struct {
		host string
		kind uint16
		want string
	}{
		{"www.test", dns.TypeA, "NOERROR | A 300 192.0.2.1 | A 300 192.0.2.2"},
		{"WwW.TeSt", dns.TypeA, "NOERROR | A 300 192.0.2.1 | A 300 192.0.2.2"},
		{"www.test", dns.TypeAAAA, "NOERROR | AAAA 300 2001:db8::1"},
		{"alias.test", dns.TypeA, "NOERROR | CNAME 60 www.test. | A 300 192.0.2.1 | A 300 192.0.2.2"},
		{"txt.test", dns.TypeTXT, `NOERROR | TXT 30 "hello"`},
		{"_s._tcp.test", dns.TypeSRV, "NOERROR | SRV 30 1 2 443 www.test."},
		{"1.2.0.192.in-addr.arpa", dns.TypePTR, "NOERROR | PTR 30 www.test."},
		{"svc.test", dns.TypeHTTPS, `NOERROR | HTTPS 30 1 . alpn="h2"`},
		{"gone.test", dns.TypeA, "NXDOMAIN"},
		{"txt.test", dns.TypeA, "NOERROR"},
	} {
		for range 2 {
			if got := show(ask(t, s, "resolver", c.host, c.kind)); got != c.want {
				t.Errorf("%s %s: got %s, want %s", c.host, dns.TypeToString[c.kind], got, c.want)
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, n := range a.counts {
		if n != 1 {
			t.Errorf("upstream was asked %d times for %s", n, key)
		}
	}
}
