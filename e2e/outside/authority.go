package outside

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// maxQueries bounds the log of queries.
const maxQueries = 100_000

// Authority is an authoritative name server over UDP and TCP (RFC 1035). It answers for the names it was given,
// NXDOMAIN for all others, and remembers every question.
type Authority struct {
	servers []*dns.Server

	mu      sync.Mutex
	records map[string]record
	mute    string // domain
	queries []Query
}

type record struct {
	ttl   time.Duration
	addrs []netip.Addr
}

// Query is one question that came in.
type Query struct {
	Time time.Time
	Peer netip.Addr
	Name string // lower case, without the final dot
	Type string // "A", "AAAA", …
}

// StartAuthority serves on the two sockets until Close.
func StartAuthority(udp net.PacketConn, tcp net.Listener) *Authority {
	keepQuestions(udp)
	a := &Authority{records: map[string]record{}}
	for _, s := range []*dns.Server{{PacketConn: udp}, {Listener: tcp}} {
		started := make(chan struct{})
		s.Handler, s.NotifyStartedFunc = a, func() { close(started) }
		a.servers = append(a.servers, s)
		go func() { _ = s.ActivateAndServe() }()
		<-started
	}
	return a
}

// keepQuestions has the kernel keep some thousand questions until this process comes to read them, where it may: of those that it drops, on a machine with much else to do,
// who asked hears nothing.
func keepQuestions(udp net.PacketConn) {
	socket, ok := udp.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20) })
	}
}

// Close ends both servers.
func (a *Authority) Close() error {
	var errs []error
	for _, s := range a.servers {
		errs = append(errs, s.Shutdown())
	}
	return errors.Join(errs...)
}

// Set replaces the addresses of a name; with none the name exists no more.
func (a *Authority) Set(name string, ttl time.Duration, addrs ...netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(addrs) == 0 {
		delete(a.records, canonical(name))
		return
	}
	a.records[canonical(name)] = record{ttl: ttl, addrs: slices.Clone(addrs)}
}

// Mute gives no answer to questions for names below a domain from now on, and at most of one domain.
func (a *Authority) Mute(domain string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mute = "." + canonical(domain)
}

// Address is the first address of a name; the zero Addr for one that does not exist.
func (a *Authority) Address(name string) netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, ok := a.records[canonical(name)]; ok {
		return r.addrs[0]
	}
	return netip.Addr{}
}

// Queries gives the questions that match, in the order in which they came.
func (a *Authority) Queries(match func(Query) bool) []Query {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []Query
	for _, q := range a.queries {
		if match(q) {
			found = append(found, q)
		}
	}
	return found
}

// ServeDNS answers one question.
func (a *Authority) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(r)
	m.Authoritative = true
	if len(r.Question) != 1 || r.Opcode != dns.OpcodeQuery {
		m.Rcode = dns.RcodeNotImplemented
		_ = w.WriteMsg(m)
		return
	}
	q := r.Question[0]
	found, ok, muted := a.lookup(q, peerOf(w.RemoteAddr()))
	if muted {
		return
	}
	for _, addr := range found.addrs {
		header := dns.RR_Header{Name: q.Name, Class: dns.ClassINET, Ttl: uint32(found.ttl / time.Second)}
		switch {
		case q.Qtype == dns.TypeA && addr.Is4():
			header.Rrtype = dns.TypeA
			m.Answer = append(m.Answer, &dns.A{Hdr: header, A: addr.AsSlice()})
		case q.Qtype == dns.TypeAAAA && addr.Is6():
			header.Rrtype = dns.TypeAAAA
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: header, AAAA: addr.AsSlice()})
		}
	}
	if !ok {
		m.Rcode = dns.RcodeNameError
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{soa(q.Name)}
	}
	if opt := r.IsEdns0(); opt != nil {
		m.SetEdns0(1232, false)
	}
	_ = w.WriteMsg(m)
}

func (a *Authority) lookup(q dns.Question, peer netip.Addr) (found record, ok, muted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := canonical(q.Name)
	if len(a.queries) < maxQueries {
		a.queries = append(a.queries, Query{Time: time.Now(), Peer: peer, Name: name, Type: dns.TypeToString[q.Qtype]})
	}
	found, ok = a.records[name]
	return found, ok, a.mute != "" && strings.HasSuffix(name, a.mute)
}

// soa goes with answers that hold nothing; its last field is how long that may be remembered (RFC 2308).
func soa(name string) dns.RR {
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 1},
		Ns:  "ns.outside.test.", Mbox: "hostmaster.outside.test.", Serial: 1, Refresh: 60, Retry: 60, Expire: 60, Minttl: 1,
	}
}

func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func peerOf(addr net.Addr) netip.Addr {
	p, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap()
}

// String is for messages: "1.001s A external.com from 10.77.0.20".
func (q Query) String() string { return fmt.Sprintf("%s %s from %s", q.Type, q.Name, q.Peer) }
