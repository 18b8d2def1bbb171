package outside

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var (
	first  = netip.MustParseAddr("127.0.0.1")
	second = netip.MustParseAddr("127.0.0.2")
)

func startOutside(t *testing.T) *Outside {
	t.Helper()
	o, err := Start(Loopback{}, Plan{
		Names: []string{"external.com"}, Addrs: []netip.Addr{first, second},
		NameServer: netip.AddrPortFrom(first, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func clientFor(t *testing.T, o *Outside) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(o.CA.PEM()) {
		t.Fatal("the CA's PEM holds no certificate")
	}
	transport := &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "external.com"},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func TestServersRemember(t *testing.T) {
	o := startOutside(t)
	client := clientFor(t, o)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+netip.AddrPortFrom(second, o.HTTPSPort).String()+"/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "external.com"
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || string(body) != "external.com at 127.0.0.2 says hello to 127.0.0.1\n" {
		t.Errorf("answer %q, %v", body, err)
	}
	seen := o.Sightings("/a")
	if len(seen) != 1 {
		t.Fatalf("sightings %v", seen)
	}
	if s := seen[0]; s.Scheme != "https" || s.SNI != "external.com" || s.Host != "external.com" || s.Peer.Addr() != first || s.Local.Addr() != second {
		t.Errorf("saw %s", s)
	}
	if n := o.ConnectionsTo(second); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	if n := o.ConnectionsTo(first); n != 0 {
		t.Errorf("%d connections to the other address", n)
	}
}

func TestStreamGoesOn(t *testing.T) {
	o := startOutside(t)
	resp, err := clientFor(t, o).Get("http://" + netip.AddrPortFrom(first, o.HTTPPort).String() + StreamPath + "x")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for i := 0; i < 3 && lines.Scan(); i++ {
		if !strings.HasPrefix(lines.Text(), "line ") {
			t.Errorf("got %q", lines.Text())
		}
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
}

func TestAuthority(t *testing.T) {
	o := startOutside(t)
	ask := func(network, name string, qtype uint16) *dns.Msg {
		t.Helper()
		m := new(dns.Msg)
		m.SetQuestion(name, qtype)
		answer, _, err := (&dns.Client{Net: network, Timeout: time.Minute}).Exchange(m, o.NameServer.String())
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	address := func(m *dns.Msg) string {
		if len(m.Answer) != 1 {
			return dns.RcodeToString[m.Rcode]
		}
		return m.Answer[0].(*dns.A).A.String()
	}

	o.Set("external.com", 3*time.Second, first)
	if got := ask("udp", "External.com.", dns.TypeA); address(got) != "127.0.0.1" || got.Answer[0].Header().Ttl != 3 || !got.Authoritative {
		t.Errorf("got %v", got)
	}
	o.Set("external.com", 3*time.Second, second)
	if got := ask("tcp", "external.com.", dns.TypeA); address(got) != "127.0.0.2" {
		t.Errorf("after the change: %v", got)
	}
	if got := ask("udp", "external.com.", dns.TypeAAAA); got.Rcode != dns.RcodeSuccess || len(got.Answer) != 0 || len(got.Ns) != 1 {
		t.Errorf("a type without records: %v", got)
	}
	if got := ask("udp", "nobody.test.", dns.TypeA); got.Rcode != dns.RcodeNameError {
		t.Errorf("an unknown name: %v", got)
	}
	o.Set("external.com", 0)
	if got := ask("udp", "external.com.", dns.TypeA); got.Rcode != dns.RcodeNameError {
		t.Errorf("a removed name: %v", got)
	}
	if got := len(o.Queries(func(q Query) bool { return q.Name == "external.com" && q.Type == "A" })); got != 3 {
		t.Errorf("%d queries counted, want 3", got)
	}
}
