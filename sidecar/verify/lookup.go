package verify

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// question is one that resolvers are asked, with EDNS, so that a refusal may say why (RFC 8914).
func question(name string, kind uint16) *dns.Msg {
	m := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
	m.SetEdns0(1232, false)
	return m
}

// randomName is a name below a domain that nobody has asked for, as a tunnel's are: one long label.
func randomName(domain string) string {
	return strings.ToLower(rand.Text() + rand.Text())[:50] + "." + domain
}

// blocked says whether a resolver of the mesh answered that it does not ask for the name.
func blocked(m *dns.Msg) bool {
	opt := m.IsEdns0()
	if opt == nil {
		return false
	}
	for _, o := range opt.Option {
		if ede, ok := o.(*dns.EDNS0_EDE); ok && (ede.InfoCode == dns.ExtendedErrorCodeBlocked || ede.InfoCode == dns.ExtendedErrorCodeFiltered) {
			return true
		}
	}
	return false
}

// describe puts an answer in words: "NXDOMAIN, blocked by policy".
func describe(m *dns.Msg) string {
	text := dns.RcodeToString[m.Rcode]
	if n := len(m.Answer); n > 0 {
		text += fmt.Sprintf(" with %d records", n)
	}
	if blocked(m) {
		text += ", blocked by policy (extended error 15 or 17)"
	}
	return text
}

const resolvConf = "/etc/resolv.conf"

// ownResolver is the pod's name server.
func (e *Env) ownResolver() (string, error) {
	if e.resolver != "" {
		return e.resolver, nil
	}
	conf, err := dns.ClientConfigFromFile(resolvConf)
	if err != nil {
		return "", err
	}
	if len(conf.Servers) == 0 {
		return "", fmt.Errorf("%s names no server", resolvConf)
	}
	return net.JoinHostPort(conf.Servers[0], conf.Port), nil
}

// ask puts a question to the pod's name server.
func (e *Env) ask(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	server, err := e.ownResolver()
	if err != nil {
		return nil, err
	}
	client := &dns.Client{Timeout: e.Wait}
	answer, _, err := client.ExchangeContext(ctx, m, server)
	if err == nil && answer.Truncated {
		client.Net = "tcp"
		answer, _, err = client.ExchangeContext(ctx, m, server)
	}
	return answer, err
}

// locate finds the address of a name as a program of the pod would. Where there is none, the result says what came of it.
func (e *Env) locate(ctx context.Context, r Result, name string) (netip.Addr, *Result) {
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr, nil
	}
	var last *dns.Msg
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
		m, err := e.ask(ctx, question(name, kind))
		if err != nil {
			r = r.conclude(Unclear, "the pod's resolver does not answer for %s: %v", name, err)
			return netip.Addr{}, &r
		}
		for _, record := range m.Answer {
			if addr, ok := recordAddr(record); ok {
				return addr, nil
			}
		}
		if last == nil || !blocked(last) {
			last = m
		}
	}
	switch {
	case blocked(last):
		r.Taken = ByResolver
		r = r.conclude(Closed, "the pod's resolver does not ask for %s: %s", name, describe(last))
	case last.Rcode == dns.RcodeNameError, last.Rcode == dns.RcodeSuccess:
		r = r.conclude(Closed, "%s has no address: %s", name, describe(last))
	default:
		r = r.conclude(Unclear, "%s cannot be looked up: %s", name, describe(last))
	}
	return netip.Addr{}, &r
}

func recordAddr(record dns.RR) (netip.Addr, bool) {
	switch record := record.(type) {
	case *dns.A:
		return netip.AddrFromSlice(record.A.To4())
	case *dns.AAAA:
		return netip.AddrFromSlice(record.AAAA.To16())
	}
	return netip.Addr{}, false
}

// at is where a name is connected to: its address, or, through a proxy, the name itself.
func (e *Env) at(ctx context.Context, r Result, name string, port uint16) (string, *Result) {
	if e.Proxy != nil {
		return net.JoinHostPort(name, fmt.Sprint(port)), nil
	}
	addr, failed := e.locate(ctx, r, name)
	return netip.AddrPortFrom(addr, port).String(), failed
}
