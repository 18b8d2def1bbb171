package upstream

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func rrs(t testing.TB, lines ...string) []dns.RR {
	t.Helper()
	var out []dns.RR
	for _, line := range lines {
		rr, err := dns.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rr)
	}
	return out
}

func TestScrub(t *testing.T) {
	sig := " 60 IN RRSIG A 8 2 60 20300101000000 20200101000000 1 test. AAAA"
	for _, c := range []struct {
		name       string
		answer, ns []string
		do         bool
		want       string // the owners and types that are left
	}{
		{name: "what answers", answer: []string{"WWW.test. 1 IN A 192.0.2.1"}, want: "WWW.test. A"},
		{name: "a stranger", answer: []string{"www.test. 1 IN A 192.0.2.1", "bank.test. 1 IN A 10.6.6.6"}, want: "www.test. A"},
		{name: "another type", answer: []string{"www.test. 1 IN TXT x"}, want: ""},
		{name: "a chain in disorder", answer: []string{"c.test. 1 IN A 192.0.2.1", "b.test. 1 IN CNAME c.test.", "www.test. 1 IN CNAME b.test."},
			want: "c.test. A, b.test. CNAME, www.test. CNAME"},
		{name: "a stranger's chain", answer: []string{"x.test. 1 IN CNAME y.test.", "y.test. 1 IN A 10.6.6.6"}, want: ""},
		{name: "a signature", answer: []string{"www.test. 1 IN A 192.0.2.1", "www.test." + sig}, do: true, want: "www.test. A, www.test. RRSIG"},
		{name: "an unwanted signature", answer: []string{"www.test. 1 IN A 192.0.2.1", "www.test." + sig}, want: "www.test. A"},
		{name: "a DNAME", answer: []string{"test. 1 IN DNAME other.", "www.test. 1 IN CNAME www.other.", "www.other. 1 IN A 192.0.2.1"},
			want: "test. DNAME, www.test. CNAME, www.other. A"},
		{name: "another class", answer: []string{"www.test. 1 CH A 192.0.2.1"}, want: ""},
		{name: "an SOA", ns: []string{"test. 1 IN SOA a. b. 1 2 3 4 5", "test. 1 IN NS a."}, want: "test. SOA"},
		{name: "a stranger's SOA", ns: []string{"evil. 1 IN SOA a. b. 1 2 3 4 5"}, want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := question
			q.DO = c.do
			m := &dns.Msg{Answer: rrs(t, c.answer...), Ns: rrs(t, c.ns...), Extra: rrs(t, "x.test. 1 IN A 10.6.6.6")}
			if err := Scrub(m, q); err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, rr := range append(append(m.Answer, m.Ns...), m.Extra...) {
				left = append(left, rr.Header().Name+" "+dns.TypeToString[rr.Header().Rrtype])
			}
			if got := strings.Join(left, ", "); got != c.want {
				t.Errorf("left: %s, want %s", got, c.want)
			}
		})
	}
}

func TestScrubRefusesEndlessChains(t *testing.T) {
	loop := &dns.Msg{Answer: rrs(t, "www.test. 1 IN CNAME b.test.", "b.test. 1 IN CNAME www.test.")}
	if Scrub(loop, question) == nil {
		t.Error("a loop is let through")
	}
	long := &dns.Msg{Answer: rrs(t, "www.test. 1 IN CNAME a.test.")}
	for name := "a"; len(name) < 20; name += "a" {
		long.Answer = append(long.Answer, rrs(t, name+".test. 1 IN CNAME "+name+"a.test.")...)
	}
	if Scrub(long, question) == nil {
		t.Error("a long chain is let through")
	}
}
