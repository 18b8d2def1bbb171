package verify

import (
	"context"
	"net/netip"

	"github.com/miekg/dns"
)

var dnsUDPWay = Way{Name: "dns-udp", About: "DNS to another resolver, over UDP", Needs: "--resolver ADDR", Direct: true, try: func(ctx context.Context, e *Env) []Result {
	return each(e.Resolvers, func(server netip.AddrPort) []Result { return []Result{e.dnsByUDP(ctx, server)} })
}}

var dnsTCPWay = Way{Name: "dns-tcp", About: "DNS to another resolver, over TCP", Needs: "--resolver ADDR", try: func(ctx context.Context, e *Env) []Result {
	return each(e.Resolvers, func(server netip.AddrPort) []Result { return []Result{e.dnsByTCP(ctx, server)} })
}}

// foreignQuestion is what another resolver is asked: for a name that nobody registered, if there is one.
func (e *Env) foreignQuestion() *dns.Msg {
	if len(e.Hosts) > 0 {
		return question(e.Hosts[0], dns.TypeA)
	}
	return question(".", dns.TypeNS)
}

func (e *Env) dnsByUDP(ctx context.Context, server netip.AddrPort) Result {
	r := Result{Tried: "a question to " + server.String() + " over UDP"}
	packet, err := e.foreignQuestion().Pack()
	if err != nil {
		return r.conclude(Unclear, "%v", err)
	}
	got := e.eitherSide(ctx, server, packet)
	if got.err != nil {
		return r.judgeDatagram(got, server.Addr(), e)
	}
	words := "no DNS"
	m := new(dns.Msg)
	if m.Unpack(got.data) == nil {
		words = describe(m)
	}
	if got.inside && !ours(server.Addr()) {
		r.Taken = ByResolver
		return r.conclude(Closed, "taken by the pod's own resolver, which answers in its place: %s", words)
	}
	return r.conclude(Open, "the other resolver answered: %s", words)
}

func (e *Env) dnsByTCP(ctx context.Context, server netip.AddrPort) Result {
	r := Result{Tried: "a question to " + server.String() + " over TCP", URL: "tcp://" + server.String()}
	c, err := e.dial(ctx, server.String())
	if err != nil {
		return r.judgeDial(err, e.Wait)
	}
	defer func() { _ = c.Close() }()
	r.Taken = c.taken
	over := dns.Conn{Conn: c}
	if err := over.WriteMsg(e.foreignQuestion()); err != nil {
		return r.judgeSilence(c, err, e)
	}
	m, err := over.ReadMsg()
	switch {
	case r.Taken == ByResolver:
		r.URL = ""
		words := "no answer"
		if err == nil {
			words = describe(m)
		}
		return r.conclude(Closed, "taken by the pod's own resolver, which answers in its place: %s", words)
	case err == nil:
		return r.conclude(Open, "the other resolver answered: %s", describe(m))
	case c.heard.Load() > 0:
		return r.conclude(Open, "answered, and not by DNS")
	}
	return r.judgeSilence(c, err, e)
}
