package dnsproxy

import (
	"encoding/json"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/dnsproxy/hostile"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/dnsproxy/upstream"
)

// strays are records that answer something else than what was asked.
func strays(m *dns.Msg) {
	for _, text := range []string{"bank.test. 600 IN A " + hostile.Lie, "www.test. 600 IN TXT x", "test. 600 IN NS evil.test."} {
		rr, _ := dns.NewRR(text)
		m.Answer, m.Ns, m.Extra = append(m.Answer, rr), append(m.Ns, rr), append(m.Extra, dns.Copy(rr))
	}
}

// TestHostileUpstreams: whatever the first upstream does, the answer is the truth, and no lie is kept.
func TestHostileUpstreams(t *testing.T) {
	const truth = "192.0.2.1"
	good := hostile.Answer(truth)
	for name, c := range map[string]struct{ udp, tcp hostile.Behaviour }{
		"dead":                     {},
		"slow":                     {udp: hostile.Slow(time.Minute, hostile.Answer(hostile.Lie))},
		"wrong id":                 {udp: hostile.Forged(func(m *dns.Msg) { m.Id++ }, hostile.Silent)},
		"wrong question":           {udp: hostile.Edited(hostile.Lie, func(m *dns.Msg) { m.Question[0].Name = "evil.test." })},
		"wrong source":             {udp: hostile.Elsewhere(hostile.Silent)},
		"cuts off, TCP is dead":    {udp: hostile.Truncated},
		"cuts off, TCP hangs up":   {udp: hostile.CutOff, tcp: hostile.Hangup},
		"cuts off for ever":        {udp: hostile.Truncated, tcp: hostile.Edited("", func(m *dns.Msg) { m.Rcode = dns.RcodeServerFailure })},
		"garbage":                  {udp: hostile.Garbage(hostile.Silent)},
		"refuses":                  {udp: hostile.Rcode(dns.RcodeRefused)},
		"strays beside the answer": {udp: hostile.Edited(truth, strays)},
		"knows no EDNS":            {udp: hostile.WithoutEDNS(good)},
		"loses the case":           {udp: hostile.LowerCase(good), tcp: hostile.LowerCase(good)},
		"insists on cookies":       {udp: hostile.Cookies("0123456789abcdef", truth), tcp: good},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, well := hostile.Start(t, hostile.Config{UDP: c.udp, TCP: c.tcp}), hostile.Start(t, hostile.Config{UDP: good})
			s := serve(t, Config{Upstreams: []string{bad.Addr.String(), well.Addr.String()}, Patience: patience})
			for range 3 {
				if got := show(ask(t, s, "resolver", "www.test", dns.TypeA)); got != "NOERROR | A 60 "+truth {
					t.Errorf("got %s", got)
				}
			}
			dump := httptest.NewRecorder()
			s.Handler().ServeHTTP(dump, httptest.NewRequest("GET", "/dns/cache", nil))
			var kept []Kept
			if err := json.Unmarshal(dump.Body.Bytes(), &kept); err != nil || len(kept) != 1 || len(kept[0].Records) != 1 {
				t.Errorf("kept %v, %v", kept, err)
			}
		})
	}
}

// libcPatience is when the C libraries ask again.
const libcPatience = 5 * time.Second

// TestPatienceOfClients: with no upstream that works the answer is SERVFAIL before the C libraries ask again.
func TestPatienceOfClients(t *testing.T) {
	s := serve(t, Config{Upstreams: []string{hostile.Start(t, hostile.Config{}).Addr.String(), hostile.Start(t, hostile.Config{}).Addr.String()}})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if m, err := try(s, "udp", "resolver", "www.test", dns.TypeA); err != nil || m.Rcode != dns.RcodeServerFailure {
				t.Errorf("got %v, %v", m, err)
			}
		})
	}
	wg.Wait()
	if upstream.DefaultPatience >= libcPatience {
		t.Errorf("a question may take %v", upstream.DefaultPatience)
	}
}

// TestDig asks as people do.
func TestDig(t *testing.T) {
	dig, err := exec.LookPath("dig")
	if err != nil {
		t.Skip("dig is not installed: apt-get install bind9-dnsutils")
	}
	authority := startNamed(t)
	s := serve(t, Config{Upstreams: []string{authority}, Views: []View{{Name: "app", Names: true, Search: []string{"ns.svc.cluster.local"}, Refuse: inside.Allowed{}.Refuses}}})
	_ = s.Names().Apply([]name.Name{named("external.com", 0, "240.240.0.1"), named("v6.test", 0, "2001:2::1")}, nil)
	s.Names().SetReady()
	addr := s.Addr("app")
	for args, want := range map[string]string{
		"+short www.ext.test":                        "203.0.113.5",
		"+short +tcp www.ext.test AAAA":              "2001:db8::5",
		"+short +noedns www.ext.test":                "203.0.113.5",
		"+short +dnssec +cookie www.ext.test":        "203.0.113.5",
		"+short -x 240.240.0.1":                      "external.com.",
		"+short external.com.ns.svc.cluster.local":   "external.com.\n240.240.0.1",
		"+short external.com AAAA":                   "",
		"+short meta.ext.test":                       "203.0.113.9", // the other one is not public
		"+noall +comments gone.ext.test":             "status: NXDOMAIN",
		"+noall +comments external.com AAAA":         "status: NOERROR",
		"+noall +comments -c CH version.bind TXT":    "status: REFUSED",
		"+noall +comments +opcode=notify ext.test":   "status: NOTIMP",
		"+noall +comments +edns=1 +noednsneg a.test": "status: BADVERS",
		"+short big.ext.test TXT":                    `"00000000000000000000000000000000000000000000000049"`, // by TCP, after TC
	} {
		call := append([]string{"@" + addr.Addr().String(), "-p", strings.Split(addr.String(), ":")[1], "+tries=1"}, strings.Fields(args)...)
		out, err := exec.Command(dig, call...).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("dig %s: got %s, %v, want %s", args, got, err, want)
		}
	}
}
