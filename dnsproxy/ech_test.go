package dnsproxy

import (
	"testing"

	"github.com/miekg/dns"
)

// TestECHIsStripped: who is not told the keys sends the name in the clear; all else of the record stays.
func TestECHIsStripped(t *testing.T) {
	a := startAuthority(t,
		`web.test. 60 IN HTTPS 1 . alpn="h2" ech="AEX+DQBB" ipv4hint="192.0.2.1"`,
		`plain.test. 60 IN HTTPS 1 . alpn="h2"`,
		`_s.test. 60 IN SVCB 1 other.test. ech="AEX+DQBB" port="8443"`,
		`must.test. 60 IN HTTPS 1 . mandatory="ech" ech="AEX+DQBB"`,
	)
	s := serve(t, Config{Upstreams: []string{a.addr}, Views: []View{{Name: "app"}}})
	wants := []struct {
		host          string
		kind          uint16
		kept, without string
	}{
		{"web.test", dns.TypeHTTPS, `NOERROR | HTTPS 60 1 . alpn="h2" ipv4hint="192.0.2.1" ech="AEX+DQBB"`, `NOERROR | HTTPS 60 1 . alpn="h2" ipv4hint="192.0.2.1"`},
		{"plain.test", dns.TypeHTTPS, `NOERROR | HTTPS 60 1 . alpn="h2"`, `NOERROR | HTTPS 60 1 . alpn="h2"`},
		{"_s.test", dns.TypeSVCB, `NOERROR | SVCB 60 1 other.test. port="8443" ech="AEX+DQBB"`, `NOERROR | SVCB 60 1 other.test. port="8443"`},
		{"must.test", dns.TypeHTTPS, `NOERROR | HTTPS 60 1 . mandatory="ech" ech="AEX+DQBB"`, `NOERROR`},
	}
	for _, strip := range []bool{false, true, false} {
		if err := s.SetPolicy("app", Policy{StripECH: strip}); err != nil {
			t.Fatal(err)
		}
		s.Flush()
		for _, c := range wants {
			want := c.kept
			if strip {
				want = c.without
			}
			for range 2 { // asked, and from memory
				if got := show(ask(t, s, "app", c.host, c.kind)); got != want {
					t.Errorf("%s, stripped %v: got %s, want %s", c.host, strip, got, want)
				}
			}
		}
	}
}

// TestECHAndSignatures: an answer that was changed does not say that it is what was signed.
func TestECHAndSignatures(t *testing.T) {
	record := func(text string) dns.RR {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		return rr
	}
	signature := record("web.test. 60 IN RRSIG HTTPS 8 2 60 20300101000000 20200101000000 1 test. AAAA")
	msg := &dns.Msg{Answer: []dns.RR{record(`web.test. 60 IN HTTPS 1 . alpn="h2"`), signature}}
	msg.AuthenticatedData = true
	if stripECH(msg); !msg.AuthenticatedData || len(msg.Answer) != 2 {
		t.Errorf("what nothing was taken out of was changed: %v", msg)
	}
	msg.Extra = []dns.RR{record(`other.test. 60 IN HTTPS 1 . ech="AEX+DQBB"`)}
	if stripECH(msg); msg.AuthenticatedData || len(msg.Answer) != 1 || len(msg.Extra[0].(*dns.HTTPS).Value) != 0 {
		t.Errorf("still as signed: %v", msg)
	}
}
