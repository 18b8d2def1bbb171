package verify

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/e2e/leaks"
)

// playVariable makes the test's binary try all ways, where it was started.
const playVariable = "SALLYPORT_VERIFY_PLAYS"

func TestMain(m *testing.M) {
	if os.Getenv(playVariable) != "" {
		e := NewEnv()
		e.Hosts, e.Addrs, e.Resolvers = []string{"nobody.test"}, []netip.Addr{netip.MustParseAddr("192.0.2.1")}, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.2:53")}
		e.TCPPorts, e.resolver = []uint16{25}, "192.0.2.2:53"
		_ = json.NewEncoder(os.Stdout).Encode(Run(context.Background(), e, All, func(Way) {}))
		os.Exit(0)
	}
	leaks.Verify(m)
}

var loopback = netip.MustParseAddr("127.0.0.1")

// fake is a far end for all ways, and a way of being for each.
type fake struct {
	t     *testing.T
	serve func(net.Conn)             // what a TCP port does with a connection
	names func(*dns.Msg) *dns.Msg    // what the pod's resolver answers
	udp   func(packet []byte) []byte // what a UDP port answers; nil for nothing
	taken Taken                      // who has the other end of connections
	wait  time.Duration              // for an answer, if not for as long as a busy machine may need for one
}

// env has a target for each way, which leads to the fake.
func (f fake) env() *Env {
	e := NewEnv()
	e.Wait = cmp.Or(f.wait, time.Minute)
	tcp, udp, own := f.listen(), f.packets(f.udp), f.resolver()
	e.ports = ports{HTTP: tcp, HTTPS: tcp, DoT: tcp, QUIC: udp.Port(), UDP: udp.Port(), Metadata: tcp, Outbound: tcp, Inbound: tcp, Admin: tcp}
	e.Hosts, e.Registered, e.Tunnels, e.DoH = []string{"nobody.test"}, []string{"somebody.test"}, []string{"tunnel.test"}, []string{fmt.Sprintf("https://doh.test:%d/", tcp)}
	e.Addrs, e.Pods, e.TCPPorts, e.Gateways = []netip.Addr{loopback}, []netip.Addr{loopback}, []uint16{tcp}, []string{fmt.Sprintf("127.0.0.1:%d", tcp)}
	e.Resolvers = []netip.AddrPort{netip.AddrPortFrom(loopback, tcp)}
	e.resolver, e.metadata = own, []string{"127.0.0.1", "metadata.test"}
	e.taken = func(netip.AddrPort, netip.AddrPort) (Taken, error) { return f.taken, nil }
	return e
}

func (f fake) listen() uint16 {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer func() { _ = c.Close() }(); f.serve(c) }()
		}
	}()
	f.t.Cleanup(func() { _ = l.Close(); <-done })
	return addrPort(l.Addr()).Port()
}

func (f fake) packets(answer func([]byte) []byte) netip.AddrPort {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buf := make([]byte, 2048); ; {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if out := answer(buf[:n]); out != nil {
				_, _ = c.WriteTo(out, from)
			}
		}
	}()
	f.t.Cleanup(func() { _ = c.Close(); <-done })
	return addrPort(c.LocalAddr())
}

func (f fake) resolver() string {
	return f.packets(func(packet []byte) []byte {
		m := new(dns.Msg)
		if m.Unpack(packet) != nil {
			return nil
		}
		out, _ := f.names(m).Pack()
		return out
	}).String()
}

// knows answers every name with loopback.
func knows(q *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	if q.Question[0].Qtype == dns.TypeA {
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(127, 0, 0, 1)}}
	}
	return m
}

// refuses answers as the agent does for names that nobody registered.
func refuses(q *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetRcode(q, dns.RcodeNameError)
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeBlocked}}
	return m
}

// ends closes a connection when it has heard something.
func ends(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }

// denies answers as a proxy of the mesh.
func denies(c net.Conn) {
	ends(c)
	body := "sallyport: it is not registered\n"
	_, _ = fmt.Fprintf(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// waits says nothing until the other end goes.
func waits(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// page answers a request.
func page(c net.Conn) {
	ends(c)
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
}

// anything speaks TLS to those who do, and to others HTTP or DNS.
func anything(t *testing.T) func(net.Conn) {
	certificate := selfSigned(t)
	return func(c net.Conn) {
		first := make([]byte, 1)
		if _, err := io.ReadFull(c, first); err != nil {
			return
		}
		again := &pushedBack{Conn: c, first: first}
		switch first[0] {
		case 0x16:
			server := tls.Server(again, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
			if server.Handshake() == nil {
				anything(t)(server) // a gateway's tunnel has TLS inside
			}
		case 'G':
			page(again)
		default:
			over := dns.Conn{Conn: again}
			if m, err := over.ReadMsg(); err == nil {
				_ = over.WriteMsg(knows(m))
			}
		}
	}
}

type pushedBack struct {
	net.Conn
	first []byte
}

func (p *pushedBack) Read(b []byte) (int, error) {
	if len(p.first) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"far.test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// verdicts are those of one way, or of all.
func verdicts(ctx context.Context, e *Env, way Way) map[Verdict][]string {
	out := map[Verdict][]string{}
	for _, r := range way.run(ctx, e) {
		out[r.Verdict] = append(out[r.Verdict], r.Tried+": "+r.Seen)
	}
	return out
}

// only fails unless all results of a way have the verdict.
func only(t *testing.T, e *Env, way Way, want Verdict) {
	t.Helper()
	got := verdicts(t.Context(), e, way)
	if len(got) != 1 || len(got[want]) == 0 {
		t.Errorf("%s: want %s alone, got %v", way.Name, want, got)
	}
}

// elsewhere are ways that loopback cannot play, or plays in tests of their own.
var elsewhere = map[string]bool{"ipv6": true, "icmp": true, "dns-udp": true}

func TestOpen(t *testing.T) {
	e := fake{t: t, serve: anything(t), names: knows, udp: func(p []byte) []byte { return p[:8] }}.env()
	for _, w := range All {
		if !elsewhere[w.Name] {
			only(t, e, w, Open)
		}
	}
	e = fake{t: t, serve: anything(t), names: knows, udp: func(p []byte) []byte { return p[:8] }, taken: ByProxy}.env()
	for _, w := range All {
		if !elsewhere[w.Name] { // the proxy took it, and let it pass
			only(t, e, w, Open)
		}
	}
}

// TestClosed: by a proxy that ends what it took, and by the pod's resolver.
func TestClosed(t *testing.T) {
	silent := func([]byte) []byte { return nil }
	for what, f := range map[string]fake{
		"ended": {t: t, serve: ends, names: knows, udp: silent, taken: ByProxy},
		"names": {t: t, serve: ends, names: refuses, udp: silent, taken: ByProxy},
	} {
		e := f.env()
		for _, w := range All {
			switch {
			case elsewhere[w.Name], w.Name == "quic", w.Name == "udp":
			case w.Name == "dns-tunnel" && what != "names":
				only(t, e, w, Open)
			case w.Name == "fronting" && what == "names": // what fronts is not there: nothing was tried
				only(t, e, w, Unclear)
			default:
				only(t, e, w, Closed)
			}
		}
	}
}

// TestSilence: of one who says nothing nobody can tell, but that nothing took the connection is told at once.
func TestSilence(t *testing.T) {
	f := fake{t: t, serve: waits, names: knows, udp: func([]byte) []byte { return nil }, taken: ByProxy, wait: 2 * time.Second}
	taken := f.env()
	var waiting sync.WaitGroup
	for _, w := range []Way{nameWay, addressWay, portWay, metadataWay, dnsTCPWay, dotWay, dohWay, quicWay, udpWay} {
		waiting.Go(func() { only(t, taken, w, Unclear) })
	}
	f.taken = ""
	free := f.env()
	for _, w := range []Way{nameWay, addressWay, portWay, metadataWay, dnsTCPWay, dotWay, dohWay} {
		waiting.Go(func() { only(t, free, w, Open) })
	}
	waiting.Wait()
	only(t, free, podWay, Closed) // pods reach each other; what counts is what the proxy there says
}

// TestDNSByUDP: who answers is seen by where the answer comes in.
func TestDNSByUDP(t *testing.T) {
	e := fake{t: t, serve: ends, names: knows, udp: func([]byte) []byte { return nil }}.env()
	e.Resolvers = []netip.AddrPort{netip.MustParseAddrPort(e.resolver)}
	only(t, e, dnsUDPWay, Open)                         // loopback is this host's own: nobody answered in its place
	for _, addr := range []string{"127.0.0.1", "::1"} { // a port whose socket hears one peer only refuses others
		ip := net.ParseIP(addr)
		c, err := net.DialUDP("udp", &net.UDPAddr{IP: ip}, &net.UDPAddr{IP: ip, Port: 9})
		if err != nil {
			t.Skip("no loopback of this family: ", err)
		}
		defer func() { _ = c.Close() }()
		e.Resolvers = []netip.AddrPort{addrPort(c.LocalAddr())}
		only(t, e, dnsUDPWay, Closed)
		if r := e.dnsByUDP(t.Context(), e.Resolvers[0]); r.Taken != ByRules {
			t.Errorf("refused by this host itself: %+v", r)
		}
	}
}

// TestSkipped: what has no target is skipped, by the flag that would give it one.
func TestSkipped(t *testing.T) {
	e := NewEnv()
	for _, w := range All {
		if w.Name == "metadata" || w.Name == "ipv6" { // they have targets of their own
			continue
		}
		results := w.run(t.Context(), e)
		if len(results) != 1 || results[0].Verdict != Skipped || !strings.HasPrefix(results[0].Needs, "--") || results[0].Way != w.Name {
			t.Errorf("%s: %+v", w.Name, results)
		}
	}
}

// TestByProxy: a forward proxy's tunnel, its refusal, and what it does not carry.
func TestByProxy(t *testing.T) {
	far := anything(t)
	for _, c := range []struct {
		serve func(net.Conn)
		want  Verdict
	}{
		{denies, Closed},
		{func(c net.Conn) {
			again := &pushedBack{Conn: c, first: make([]byte, 1)}
			if _, err := io.ReadFull(c, again.first); err != nil || again.first[0] == 'G' {
				page(again)
				return
			}
			buf := make([]byte, 1)
			for head := ""; !strings.HasSuffix(head, "\r\n\r\n"); head += string(buf) {
				if _, err := again.Read(buf); err != nil {
					return
				}
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			far(c)
		}, Open},
	} {
		f := fake{t: t, serve: c.serve, names: refuses, udp: func([]byte) []byte { return nil }}
		e := f.env()
		e.Proxy = &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", f.listen())}
		for _, w := range All {
			switch {
			case w.Name == "ipv6":
			case w.Direct:
				only(t, e, w, Skipped)
			default:
				only(t, e, w, c.want)
			}
		}
	}
}

// TestNoTunnel: whatever a proxy answers in place of a tunnel, there is none.
func TestNoTunnel(t *testing.T) {
	for _, c := range []struct {
		answer answer
		want   Verdict
	}{{answer{407, "log in"}, Closed}, {answer{403, "sallyport: no"}, Closed}, {answer{404, ""}, Closed}, {answer{503, "upstream connect error"}, Unclear}} {
		if got := (Result{}).judgeDial(&refusedError{c.answer}, time.Second); got.Verdict != c.want || got.Taken != ByProxy {
			t.Errorf("%s: %+v, want %s", c.answer, got, c.want)
		}
	}
	if got := (Result{Taken: ByProxy}).judgeAnswer(answer{407, "log in"}); got.Verdict != Closed {
		t.Errorf("a proxy that wants a password: %+v", got)
	}
}

// TestNoNetwork: where there is no network nothing is open, and of a resolver that cannot be asked nobody can tell.
func TestNoNetwork(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), playVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	}
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("a network namespace cannot be made here: ", err)
	}
	var report Report
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	for _, r := range report.Results {
		byName := r.Way == "name" || r.URL == "http://metadata.google.internal"
		switch {
		case byName && r.Verdict == Unclear, !byName && r.Verdict == Closed, r.Verdict == Skipped && r.Needs != "":
		default:
			t.Errorf("%+v", r)
		}
	}
	if report.Count(Closed) < 12 {
		t.Errorf("%d are closed: %+v", report.Count(Closed), report)
	}
}

// TestUnreached: Envoy's own answer for a server that it let a request go to is neither open nor closed.
func TestUnreached(t *testing.T) {
	for body, want := range map[string]Verdict{
		"upstream connect error or disconnect/reset before headers. reset reason: connection timeout": Unclear,
		"upstream request timeout":         Unclear,
		"no healthy upstream":              Unclear,
		"sallyport: x is not registered":   Closed,
		"the upstream is on holiday today": Open,
	} {
		if got := (Result{Taken: ByProxy}).judgeAnswer(answer{http.StatusServiceUnavailable, body}); got.Verdict != want {
			t.Errorf("%q: %s, want %s", body, got.Verdict, want)
		}
	}
}
