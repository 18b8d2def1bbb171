package verify

import (
	"context"

	"github.com/miekg/dns"
)

// tunnelQuestions is how many names are asked for: a tunnel needs many.
const tunnelQuestions = 3

var tunnelWay = Way{Name: "dns-tunnel", About: "long random names, by the pod's own resolver", Needs: "--tunnel DOMAIN", Direct: true, try: func(ctx context.Context, e *Env) []Result {
	return each(e.Tunnels, func(domain string) []Result { return []Result{e.tunnel(ctx, domain)} })
}}

// tunnel asks one after the other, and stops at the first that got out.
func (e *Env) tunnel(ctx context.Context, domain string) Result {
	r := Result{Tried: "names of 50 random letters below " + domain}
	for range tunnelQuestions {
		m, err := e.ask(ctx, question(randomName(domain), dns.TypeTXT))
		switch {
		case err != nil:
			return r.conclude(Unclear, "the pod's resolver does not answer: %v", err)
		case blocked(m):
			r.Taken = ByResolver
			r = r.conclude(Closed, "the pod's resolver does not ask for them: %s", describe(m))
		case m.Rcode == dns.RcodeSuccess, m.Rcode == dns.RcodeNameError:
			return r.conclude(Open, "the question went out, and was answered: %s", describe(m))
		default:
			r = r.conclude(Unclear, "the resolver says %s, which does not tell whether it asked", describe(m))
		}
	}
	return r
}
