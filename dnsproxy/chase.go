package dnsproxy

import (
	"context"
	"fmt"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/packet"
	"github.com/sallyport/sallyport/dnsproxy/upstream"
)

// maxChase is how often a chain of aliases is followed that an upstream has not followed to its end. Recursive
// resolvers do; an authoritative server that a domain is forwarded to does not leave its own zones.
const maxChase = 8

// complete asks for q, and for the ends of chains until there are records or somebody says that there are none.
func (v *view) complete(lower []byte, q upstream.Question) (*dns.Msg, upstream.Server, error) {
	ctx, cancel := context.WithTimeout(v.s.base, v.s.config.Patience)
	defer cancel()
	msg, from, err := v.askRoute(ctx, lower, q)
	if err != nil {
		return nil, from, err
	}
	for range maxChase {
		tail, open := upstream.Tail(msg, q)
		if !open {
			return msg, from, nil
		}
		wire := make([]byte, 256)
		n, err := dns.PackDomainName(tail, wire, 0, nil, false)
		if err != nil {
			return nil, from, fmt.Errorf("the alias %q: %w", tail, err)
		}
		more := q
		more.Name = tail
		next, from, err := v.askRoute(ctx, wire[:n], more)
		if err != nil {
			return nil, from, fmt.Errorf("following the alias %s: %w", tail, err)
		}
		if len(next.Answer) == 0 && len(next.Ns) == 0 && next.Rcode == dns.RcodeSuccess {
			return msg, from, nil // there is nothing, and nobody to say so
		}
		msg.Answer = append(msg.Answer, next.Answer...)
		msg.Ns, msg.Rcode = next.Ns, next.Rcode
		msg.AuthenticatedData = msg.AuthenticatedData && next.AuthenticatedData
		if err := upstream.Scrub(msg, q); err != nil { // the chain as a whole
			return nil, from, fmt.Errorf("upstream %s: %w", from, err)
		}
	}
	return nil, from, fmt.Errorf("upstream %s: the chain of aliases from %s goes on and on", from, packet.Text(lower))
}

// askRoute asks the resolvers for the name; what is not about q is taken out.
func (v *view) askRoute(ctx context.Context, lower []byte, q upstream.Question) (*dns.Msg, upstream.Server, error) {
	response, err := v.s.routes.of(lower).Exchange(ctx, q)
	if err != nil {
		return nil, response.Server, err
	}
	msg := response.Msg
	if msg.Rcode != dns.RcodeSuccess && msg.Rcode != dns.RcodeNameError {
		return nil, response.Server, fmt.Errorf("upstream %s answered %s", response.Server, dns.RcodeToString[msg.Rcode])
	}
	if err := upstream.Scrub(msg, q); err != nil {
		return nil, response.Server, fmt.Errorf("upstream %s: %w", response.Server, err)
	}
	return msg, response.Server, nil
}
