package dnsproxy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/e2e/freeport"
)

const namedConf = `options {
  directory "%[1]s"; listen-on port %[2]d { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none; session-keyfile none;
  recursion no; allow-transfer { none; }; dnssec-validation no; minimal-responses no;
};
controls {};
zone "ext.test" { type primary; file "ext.zone"; };
`

const namedZone = `$TTL 20
@ IN SOA ns admin 1 3600 600 86400 7
@ IN NS ns
ns IN A 127.0.0.1
www IN A 203.0.113.5
www IN AAAA 2001:db8::5
*.wild IN A 203.0.113.6
alias IN CNAME www
meta IN A 169.254.169.254
meta IN A 203.0.113.9
d IN DNAME wild
_s._tcp IN SRV 1 2 443 www
@ IN HTTPS 1 . alpn=h2
`

// startNamed runs bind9 on a free port of the loopback and returns its address.
func startNamed(t *testing.T) string {
	t.Helper()
	zone := namedZone
	for i := range 50 {
		zone += fmt.Sprintf("big IN TXT \"%050d\"\n", i)
	}
	return startNamedWith(t, zone)
}

func startNamedWith(t *testing.T, zone string) string {
	t.Helper()
	binary, err := exec.LookPath("named")
	if err != nil {
		t.Skip("bind9's named is not installed: apt-get install bind9")
	}
	return startProcess(t, func(dir string, port int) *exec.Cmd {
		for file, content := range map[string]string{"named.conf": fmt.Sprintf(namedConf, dir, port), "ext.zone": zone} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return exec.Command(binary, "-g", "-c", filepath.Join(dir, "named.conf"))
	})
}

// startProcess runs a name server on a free port of the loopback, another one if somebody else has taken it meanwhile,
// and returns its address when it knows ext.test.
func startProcess(t *testing.T, command func(dir string, port int) *exec.Cmd) string {
	t.Helper()
	client := dns.Client{Timeout: time.Second}
	for attempt := 1; ; attempt++ {
		port, err := freeport.Port()
		if err != nil {
			t.Fatal(err)
		}
		cmd, said := command(t.TempDir(), port), new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = said, said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = cmd.Wait() }()
		stop := func() { _ = cmd.Process.Kill(); <-ended }
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			m := new(dns.Msg)
			m.SetQuestion("ext.test.", dns.TypeSOA)
			if got, _, err := client.Exchange(m, addr); err == nil && got.Rcode == dns.RcodeSuccess {
				t.Cleanup(stop)
				return addr
			}
			select {
			case <-ended:
				deadline = time.Time{}
			case <-time.After(5 * time.Millisecond):
			}
		}
		stop()
		if attempt == 3 {
			t.Fatalf("%s does not answer: %s", cmd.Path, said)
		}
	}
}

func TestAgainstNamed(t *testing.T) {
	s := serve(t, Config{Upstreams: []string{startNamed(t)}, Views: []View{{Name: "resolver", Refuse: inside.Allowed{}.Refuses}}})
	for _, c := range []struct {
		host string
		kind uint16
		want string
	}{
		{"www.ext.test", dns.TypeA, "NOERROR | A 20 203.0.113.5"},
		{"www.ext.test", dns.TypeAAAA, "NOERROR | AAAA 20 2001:db8::5"},
		{"any.wild.ext.test", dns.TypeA, "NOERROR | A 20 203.0.113.6"},
		{"alias.ext.test", dns.TypeA, "NOERROR | CNAME 20 www.ext.test. | A 20 203.0.113.5"},
		{"x.d.ext.test", dns.TypeA, "NOERROR | DNAME 20 wild.ext.test. | CNAME 20 x.wild.ext.test. | A 20 203.0.113.6"},
		{"meta.ext.test", dns.TypeA, "NOERROR | A 20 203.0.113.9"},
		{"_s._tcp.ext.test", dns.TypeSRV, "NOERROR | SRV 20 1 2 443 www.ext.test."},
		{"ext.test", dns.TypeHTTPS, `NOERROR | HTTPS 20 1 . alpn="h2"`},
		{"gone.ext.test", dns.TypeA, "NXDOMAIN"},
		{"www.ext.test", dns.TypeTXT, "NOERROR"},
		{"other.test", dns.TypeA, "SERVFAIL"}, // named refuses
	} {
		m, err := try(s, "tcp", "resolver", c.host, c.kind)
		if err != nil || show(m) != c.want {
			t.Errorf("%s %s: got %v, %v, want %s", c.host, dns.TypeToString[c.kind], m, err, c.want)
		}
	}
	if m := ask(t, s, "resolver", "gone.ext.test", dns.TypeA); len(m.Ns) != 1 || m.Ns[0].Header().Ttl > 7 {
		t.Errorf("the SOA is %v", m.Ns)
	}
	if m, err := try(s, "tcp", "resolver", "big.ext.test", dns.TypeTXT); err != nil || len(m.Answer) != 50 {
		t.Errorf("a large answer: %v, %v", m, err)
	}
}
