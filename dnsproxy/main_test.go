package dnsproxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/dnsproxy/packet"
	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// authority is a real DNS server in this process that counts what it is asked.
type authority struct {
	addr string

	mu      sync.Mutex
	zone    map[string][]dns.RR // "name. TYPE" → records
	soa     dns.RR              // for what is not there
	counts  map[string]int      // the same keys, and "tcp"
	respond func(w dns.ResponseWriter, req *dns.Msg) bool
}

func startAuthority(t testing.TB, records ...string) *authority {
	t.Helper()
	a := &authority{zone: map[string][]dns.RR{}, counts: map[string]int{}}
	a.soa = record(t, "test. 300 IN SOA ns.test. admin.test. 1 2 3 4 60")
	for _, r := range records {
		a.add(t, r)
	}
	for attempt := 0; ; attempt++ {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		a.addr = pc.LocalAddr().String()
		l, err := net.Listen("tcp", a.addr)
		if err != nil {
			pc.Close()
			if attempt > 10 {
				t.Fatal(err)
			}
			continue
		}
		for _, srv := range []*dns.Server{{PacketConn: pc, Handler: a}, {Listener: l, Handler: a}} {
			ready := make(chan struct{})
			srv.NotifyStartedFunc = func() { close(ready) }
			done := make(chan struct{})
			go func() { defer close(done); _ = srv.ActivateAndServe() }()
			<-ready
			t.Cleanup(func() { _ = srv.Shutdown(); <-done })
		}
		return a
	}
}

func record(t testing.TB, text string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(text)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

func (a *authority) add(t testing.TB, text string) {
	rr := record(t, text)
	a.mu.Lock()
	defer a.mu.Unlock()
	key := rr.Header().Name + " " + dns.TypeToString[rr.Header().Rrtype]
	a.zone[key] = append(a.zone[key], rr)
}

// deny puts another SOA beside what is not there.
func (a *authority) deny(soa dns.RR) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.soa = soa
}

// answerWith replaces the zone by f; f answers by itself when it returns true.
func (a *authority) answerWith(f func(w dns.ResponseWriter, req *dns.Msg) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.respond = f
}

func (a *authority) count(key string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	host, kind, _ := strings.Cut(key, " ")
	return a.counts[strings.TrimSpace(strings.ToLower(host)+" "+kind)]
}

func (a *authority) ServeDNS(w dns.ResponseWriter, req *dns.Msg) {
	q := req.Question[0]
	a.mu.Lock()
	a.counts[strings.ToLower(q.Name)+" "+dns.TypeToString[q.Qtype]]++
	if w.RemoteAddr().Network() == "tcp" {
		a.counts["tcp"]++
	}
	respond := a.respond
	a.mu.Unlock()
	if respond != nil && respond(w, req) {
		return
	}
	m := a.fromZone(req)
	if opt := req.IsEdns0(); opt != nil {
		m.SetEdns0(1232, opt.Do())
		if w.RemoteAddr().Network() == "udp" {
			m.Truncate(int(opt.UDPSize()))
		}
	}
	_ = w.WriteMsg(m)
}

func (a *authority) fromZone(req *dns.Msg) *dns.Msg {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := new(dns.Msg)
	m.SetReply(req)
	m.RecursionAvailable = true
	owner, kind := strings.ToLower(req.Question[0].Name), dns.TypeToString[req.Question[0].Qtype]
	exists := false
	for range 8 {
		exists = false
		for key := range a.zone {
			exists = exists || len(key) > len(owner) && key[:len(owner)+1] == owner+" "
		}
		m.Answer = append(m.Answer, a.zone[owner+" "+kind]...)
		cname := a.zone[owner+" CNAME"]
		if len(cname) == 0 || kind == "CNAME" {
			break
		}
		m.Answer = append(m.Answer, cname...)
		owner = cname[0].(*dns.CNAME).Target
	}
	for i, rr := range m.Answer {
		m.Answer[i] = dns.Copy(rr)
		if strings.EqualFold(rr.Header().Name, req.Question[0].Name) {
			m.Answer[i].Header().Name = req.Question[0].Name
		}
	}
	if len(a.zone[owner+" "+kind]) == 0 {
		m.Ns = []dns.RR{dns.Copy(a.soa)}
		if !exists {
			m.Rcode = dns.RcodeNameError
		}
	}
	return m
}

// clock is time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// serve runs a server with the config; views without an address get a free one. Time stands still unless the config
// has a clock: a TTL does not depend on how fast the test is.
func serve(t testing.TB, config Config) *Server {
	t.Helper()
	if config.Now == nil {
		config.Now = newClock().Now
	}
	if config.Views == nil {
		config.Views = []View{{Name: "resolver"}}
	}
	for i := range config.Views {
		if config.Views[i].Listen == nil {
			config.Views[i].Listen = []string{"127.0.0.1:0"}
		}
	}
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// unhurried is a server that asks upstream once and waits, however slow a loaded machine makes it: so it can be counted how often it asks.
func unhurried(config Config) Config {
	config.firstAttempt, config.Patience = patience, 2*patience
	return config
}

// ask sends one question by UDP.
func ask(t testing.TB, s *Server, view, host string, kind uint16, edit ...func(*dns.Msg)) *dns.Msg {
	t.Helper()
	m, err := try(s, "udp", view, host, kind, edit...)
	if err != nil {
		t.Fatalf("%s %s: %v", host, dns.TypeToString[kind], err)
	}
	return m
}

func try(s *Server, network, view, host string, kind uint16, edit ...func(*dns.Msg)) (*dns.Msg, error) {
	req := new(dns.Msg)
	req.SetQuestion(dns.Fqdn(host), kind)
	for _, f := range edit {
		f(req)
	}
	client := dns.Client{Net: network, Timeout: patience}
	m, _, err := client.Exchange(req, s.Addr(view).String())
	if err == nil && (len(m.Question) != 1 || m.Question[0] != req.Question[0]) {
		err = fmt.Errorf("the answer's question is %v, want %v", m.Question, req.Question)
	}
	return m, err
}

func edns(size uint16, do bool) func(*dns.Msg) {
	return func(m *dns.Msg) { m.SetEdns0(size, do) }
}

// show is an answer in short: its code, then type, TTL and data of each record.
func show(m *dns.Msg) string {
	out := dns.RcodeToString[m.Rcode]
	for _, rr := range m.Answer {
		h := rr.Header()
		out += fmt.Sprintf(" | %s %d %s", dns.TypeToString[h.Rrtype], h.Ttl, strings.TrimPrefix(rr.String(), h.String()))
	}
	return out
}

func named(host string, ttl uint32, addrs ...string) name.Name {
	n := name.Name{Host: host, TTL: ttl}
	for _, a := range addrs {
		n.Addresses = append(n.Addresses, netip.MustParseAddr(a))
	}
	return n
}

// wireName is host as the table's keys are.
func wireName(host string) []byte { return packet.AppendName(nil, host) }
