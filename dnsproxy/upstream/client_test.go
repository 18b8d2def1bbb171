package upstream

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/hostile"
	"github.com/sallyport/sallyport/e2e/freeport"
	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

const truth = "192.0.2.1"

var question = Question{Name: "www.test.", Type: dns.TypeA, Class: dns.ClassINET}

// atEase waits so long for every server, and for the right answer, that no load of the machine makes it give up. What
// is about giving up says so.
var atEase = pace{
	unmeasured: time.Minute, least: time.Minute, most: time.Minute,
	datagram: time.Minute, stream: time.Minute, unproven: 50 * time.Millisecond,
}

// client is one that is at ease, but for what edit changes.
func client(t testing.TB, config Config, edit ...func(*pace)) *Client {
	t.Helper()
	if config.Patience == 0 {
		config.Patience = 2 * time.Minute
	}
	p := atEase
	for _, f := range edit {
		f(&p)
	}
	c := newClient(config, &p)
	t.Cleanup(c.Close)
	return c
}

// hedges asks another server soon, and gives none up.
func hedges(p *pace) {
	p.unmeasured, p.least, p.most = time.Millisecond, time.Millisecond, time.Millisecond
}

// givesUp leaves a server soon that does not answer.
func givesUp(p *pace) { p.datagram, p.stream = 100*time.Millisecond, 100*time.Millisecond }

func of(servers ...*hostile.Server) (out []Server) {
	for _, s := range servers {
		out = append(out, Server{Addr: s.Addr})
	}
	return out
}

// right wants the true answer, with the name as it was asked.
func right(t *testing.T, r Response, err error) {
	t.Helper()
	if err != nil || len(r.Msg.Answer) != 1 || !strings.HasPrefix(r.Msg.Answer[0].String(), "www.test.\t") || !strings.HasSuffix(r.Msg.Answer[0].String(), truth) {
		t.Fatalf("got %v, %v", r.Msg, err)
	}
}

// TestForgeriesArePassedOver: what does not answer the question is ignored, and the real answer after it is taken.
func TestForgeriesArePassedOver(t *testing.T) {
	good := hostile.Answer(truth)
	for name, udp := range map[string]hostile.Behaviour{
		"wrong id":       hostile.Forged(func(m *dns.Msg) { m.Id++ }, good),
		"wrong name":     hostile.Forged(func(m *dns.Msg) { m.Question[0].Name = "evil.test." }, good),
		"wrong type":     hostile.Forged(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }, good),
		"wrong class":    hostile.Forged(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, good),
		"no question":    hostile.Forged(func(m *dns.Msg) { m.Question = nil }, good),
		"two questions":  hostile.Forged(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, good),
		"not a response": hostile.Forged(func(m *dns.Msg) { m.Response = false }, good),
		"wrong opcode":   hostile.Forged(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }, good),
		"lower case":     hostile.LowerCase(hostile.Forged(nil, func(w *hostile.Writer, _ *dns.Msg) {})),
		"garbage":        hostile.Garbage(good),
		"another's cookie": hostile.Forged(func(m *dns.Msg) {
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: strings.Repeat("ab", 16)}}
		}, good),
		"from elsewhere": hostile.Elsewhere(good),
	} {
		t.Run(name, func(t *testing.T) {
			p := hostile.Start(t, hostile.Config{UDP: udp, TCP: good})
			c := client(t, Config{Servers: of(p)})
			upperCase(c)
			r, err := c.Exchange(t.Context(), question)
			right(t, r, err)
		})
	}
}

func TestFailsOver(t *testing.T) {
	for name, first := range map[string]hostile.Behaviour{
		"silent": hostile.Silent, "SERVFAIL": hostile.Rcode(dns.RcodeServerFailure), "REFUSED": hostile.Rcode(dns.RcodeRefused),
		"garbage": hostile.Garbage(hostile.Silent), "wrong id": hostile.Forged(func(m *dns.Msg) { m.Id++ }, hostile.Silent),
		"cut off, and TCP is silent": hostile.Truncated,
	} {
		t.Run(name, func(t *testing.T) {
			bad, well := hostile.Start(t, hostile.Config{UDP: first}), hostile.Start(t, hostile.Config{UDP: hostile.Answer(truth)})
			r, err := client(t, Config{Servers: of(bad, well)}, hedges).Exchange(t.Context(), question)
			right(t, r, err)
			if r.Server.Addr != well.Addr {
				t.Fatalf("%v answered", r.Server)
			}
			eventually(t, "the first was asked", func() bool { return len(bad.Asked("www.test")) > 0 })
		})
	}
	t.Run("dead", func(t *testing.T) {
		dead := Server{Addr: deadAddr(t)}
		well := hostile.Start(t, hostile.Config{UDP: hostile.Answer(truth)})
		r, err := client(t, Config{Servers: append([]Server{dead}, of(well)...)}, hedges).Exchange(t.Context(), question)
		right(t, r, err)
	})
}

func deadAddr(t *testing.T) netip.AddrPort {
	t.Helper()
	addr, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	return netip.MustParseAddrPort(addr)
}

// TestIllServersAreAskedLast: no question waits for a server that was silent before.
func TestIllServersAreAskedLast(t *testing.T) {
	ill, well := hostile.Start(t, hostile.Config{}), hostile.Start(t, hostile.Config{UDP: hostile.Answer(truth)})
	c := client(t, Config{Servers: of(ill, well)})
	start := time.Now()
	fallIll(c, ill, start)
	for range 10 {
		r, err := c.Exchange(t.Context(), question)
		right(t, r, err)
	}
	most := 1 + int(time.Since(start)/probeIll) // to see whether it is well again
	if n := len(ill.Asked("")); n > most {
		t.Errorf("the ill server was asked %d times, want %d at most", n, most)
	}
}

func TestEachServerDeclinesOnce(t *testing.T) {
	a := hostile.Start(t, hostile.Config{UDP: hostile.Rcode(dns.RcodeRefused)})
	b := hostile.Start(t, hostile.Config{UDP: hostile.Rcode(dns.RcodeServerFailure)})
	r, err := client(t, Config{Servers: of(a, b)}).Exchange(t.Context(), question)
	if err != nil || r.Msg.Rcode != dns.RcodeRefused || len(a.Asked("")) != 1 || len(b.Asked("")) > 2 { // b also to measure it
		t.Errorf("got %v, %v; asked %v and %v", r.Msg, err, a.Asked(""), b.Asked(""))
	}
}

func TestPatienceEnds(t *testing.T) {
	p := hostile.Start(t, hostile.Config{})
	c := client(t, Config{Servers: of(p), Patience: 300 * time.Millisecond}, givesUp)
	_, err := c.Exchange(t.Context(), question)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), p.Addr.String()) {
		t.Errorf("error %v, want one that names %s", err, p.Addr)
	}
	if n := len(p.Asked("")); n > rounds || !c.Status()[0].Ill {
		t.Errorf("asked %d times; the server is %+v", n, c.Status()[0])
	}
}

func TestTruncation(t *testing.T) {
	for name, udp := range map[string]hostile.Behaviour{"empty": hostile.Truncated, "in the middle of a record": hostile.CutOff} {
		t.Run(name, func(t *testing.T) {
			p := hostile.Start(t, hostile.Config{UDP: udp, TCP: hostile.Answer(truth)})
			c := client(t, Config{Servers: of(p)})
			for range 3 {
				r, err := c.Exchange(t.Context(), question)
				right(t, r, err)
			}
			if p.Connections() != 1 {
				t.Errorf("%d connections for three questions", p.Connections())
			}
		})
	}
}

func TestOldServerWithoutEDNS(t *testing.T) {
	p := hostile.Start(t, hostile.Config{UDP: hostile.WithoutEDNS(hostile.Answer(truth))})
	c := client(t, Config{Servers: of(p)})
	for range 3 {
		r, err := c.Exchange(t.Context(), question)
		right(t, r, err)
	}
	if n := len(p.Asked("")); n != 4 {
		t.Errorf("asked %d times, want 4: it is not asked with EDNS again", n)
	}
}

func TestRequest(t *testing.T) {
	p := hostile.Start(t, hostile.Config{UDP: hostile.Answer(truth)})
	c := client(t, Config{Servers: of(p)})
	for range 8 {
		if _, err := c.Exchange(t.Context(), Question{Name: "www.a-long-name.test.", Type: dns.TypeA, Class: dns.ClassINET, DO: true, CD: true}); err != nil {
			t.Fatal(err)
		}
	}
	ids, ports, cases := map[uint16]bool{}, map[uint16]bool{}, map[string]bool{}
	for _, a := range p.Asked("") {
		ids[a.Req.Id], ports[a.From.Port()], cases[a.Req.Question[0].Name] = true, true, true
		if opt := a.Req.IsEdns0(); opt == nil || !opt.Do() || opt.UDPSize() != 1232 || !a.Req.CheckingDisabled || !a.Req.RecursionDesired {
			t.Fatalf("request %v", a.Req)
		}
	}
	if len(ids) < 6 || len(ports) < 6 || len(cases) < 6 {
		t.Errorf("8 requests with %d ids, %d ports and %d ways to write the name", len(ids), len(ports), len(cases))
	}
}

func TestCancel(t *testing.T) {
	p := hostile.Start(t, hostile.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	c := client(t, Config{Servers: of(p)})
	done := make(chan error, 1)
	go func() { _, err := c.Exchange(ctx, question); done <- err }()
	eventually(t, "asked", func() bool { return len(p.Asked("")) == 1 })
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	case <-time.After(patience):
		t.Fatal("goes on after its context ended")
	}
}

// patience is how long a test waits for what must happen, however loaded the machine is.
const patience = time.Minute

// eventually polls for what another goroutine will do.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("it never came: %s", what)
		}
	}
}
