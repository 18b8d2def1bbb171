package dnsproxy

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const unboundConf = `server:
  directory: "%[1]s"
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  verbosity: 0
  interface: 127.0.0.1
  port: %[2]d
  num-threads: 1
  do-daemonize: no
  do-not-query-localhost: no
  module-config: "iterator"
  minimal-responses: yes
  local-zone: "test." nodefault
forward-zone:
  name: "."
  forward-addr: 127.0.0.1@%[3]s
remote-control:
  control-enable: no
`

// startUnbound runs unbound in front of an authority on a free port of the loopback.
func startUnbound(t *testing.T, authority string) string {
	t.Helper()
	binary, err := exec.LookPath("unbound")
	if err != nil {
		t.Skip("unbound is not installed: apt-get install unbound")
	}
	_, behind, _ := net.SplitHostPort(authority)
	return startProcess(t, func(dir string, port int) *exec.Cmd {
		file := filepath.Join(dir, "unbound.conf")
		if err := os.WriteFile(file, fmt.Appendf(nil, unboundConf, dir, port, behind), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.Command(binary, "-d", "-c", file)
	})
}

// randomZone is what a zone may hold, and the labels that questions are made of.
func randomZone(r *rand.Rand) (zone string, labels []string) {
	var b strings.Builder
	b.WriteString(namedZone)
	for i := range 40 {
		labels = append(labels, fmt.Sprintf("h%d", i))
	}
	for i, label := range labels {
		ttl := 30 + r.IntN(3000)
		record := func(format string, args ...any) {
			fmt.Fprintf(&b, "%s %d IN %s\n", label, ttl, fmt.Sprintf(format, args...))
		}
		switch i % 10 {
		case 0: // an alias, maybe of an alias, maybe of itself in the end
			record("CNAME h%d", r.IntN(40))
		case 1:
			record("CNAME x.h%d", r.IntN(40))
		case 2:
			record("DNAME h%d", r.IntN(40))
		case 3: // nothing but something below: an empty non-terminal
			fmt.Fprintf(&b, "a.b.%s %d IN A 192.0.2.%d\n", label, ttl, i)
		case 4:
			record("CNAME outside.example.")
		default:
			for n := range 1 + r.IntN(5) {
				record("A 192.0.2.%d", 10*i%200+n)
			}
			if r.IntN(2) == 0 {
				record("AAAA 2001:db8::%d", i)
			}
			record("TXT \"%s\" \"Text %d\"", strings.Repeat("t", r.IntN(200)), i)
			record("MX 10 H%d", r.IntN(40))
			record("SRV 1 2 443 h%d", r.IntN(40))
			record("HTTPS 1 . alpn=h2 ipv4hint=192.0.2.%d", i)
			record("CAA 0 issue \"ca.test\"")
		}
	}
	return b.String(), append(labels, "www", "alias", "d", "wild", "a", "b", "x", "gone", "big", "*", "_s", "_tcp", "meta", "ns")
}

// TestLikeUnbound asks unbound and us the same about the same authority.
func TestLikeUnbound(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	zone, labels := randomZone(r)
	authority := startNamedWith(t, zone)
	theirs := startUnbound(t, authority)
	s := serve(t, Config{Upstreams: []string{authority}})
	kinds := []uint16{
		dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeMX, dns.TypeSRV, dns.TypeCNAME, dns.TypeHTTPS, dns.TypeCAA,
		dns.TypeNS, dns.TypeSOA, dns.TypePTR, dns.TypeDNAME,
	}
	start := time.Now()
	rcodes, wrong := map[string]int{}, 0
	for range 2000 {
		host := "ext.test."
		for range r.IntN(4) {
			host = labels[r.IntN(len(labels))] + "." + host
		}
		req := new(dns.Msg)
		req.SetQuestion(host, kinds[r.IntN(len(kinds))])
		ours, want := over(t, req, s.Addr("resolver").String()), over(t, req, theirs)
		rcodes[dns.RcodeToString[ours.Rcode]]++
		if diff := differ(ours, want, time.Since(start)); diff != "" {
			if wrong++; wrong <= 10 {
				t.Errorf("%s %s: %s\nours:   %s\ntheirs: %s", host, dns.TypeToString[req.Question[0].Qtype], diff, show(ours), show(want))
			}
		}
	}
	t.Logf("answers: %v", rcodes)
	if rcodes["NOERROR"] < 500 || rcodes["NXDOMAIN"] < 100 || rcodes["SERVFAIL"] == 0 {
		t.Errorf("the questions are all alike: %v", rcodes)
	}
}

// over asks by TCP, so that nothing is cut off.
func over(t *testing.T, req *dns.Msg, addr string) *dns.Msg {
	t.Helper()
	client := dns.Client{Net: "tcp", Timeout: patience}
	m, _, err := client.Exchange(req, addr)
	if err != nil {
		t.Fatalf("%s: %v", req.Question[0].Name, err)
	}
	return m
}

// differ compares response codes and records; names without case, TTLs with what the test has taken so far: they keep
// each set of records once, for all questions, and we the answer to each question.
func differ(a, b *dns.Msg, elapsed time.Duration) string {
	if a.Rcode != b.Rcode {
		return "response codes"
	}
	if a.Rcode == dns.RcodeServerFailure {
		return "" // how far a chain was followed before is nobody's business
	}
	if len(a.Answer) != len(b.Answer) {
		return "number of records"
	}
	key := func(rr dns.RR) string {
		c := dns.Copy(rr)
		c.Header().Ttl = 0
		if rr.Header().Rrtype == dns.TypeTXT {
			return c.String()
		}
		return strings.ToLower(c.String())
	}
	byKey := func(x, y dns.RR) int { return strings.Compare(key(x), key(y)) }
	left, right := slices.SortedFunc(slices.Values(a.Answer), byKey), slices.SortedFunc(slices.Values(b.Answer), byKey)
	for i := range left {
		if key(left[i]) != key(right[i]) {
			return "records"
		}
		if d := int(left[i].Header().Ttl) - int(right[i].Header().Ttl); max(d, -d) > int(elapsed/time.Second)+2 {
			return "TTLs"
		}
	}
	return ""
}
