package interpret

import (
	"net/netip"
	"slices"
	"strings"

	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// chain picks the filter chain as Envoy does: one condition after the other, each of which keeps the chains that meet it
// best. There is no way back: chains that met an earlier condition less well are not looked at again, and where nothing is
// left the default takes the connection (FilterChainMatch's documentation; tried with a real one).
func (n *conn) chain() *listenerv3.FilterChain {
	if tree := n.listener.FilterChainMatcher; tree != nil {
		return n.chosen(tree)
	}
	left := slices.Clone(n.listener.FilterChains)
	for _, keep := range []func([]*listenerv3.FilterChain) []*listenerv3.FilterChain{n.byPort, n.byAddress, n.byServerName, n.byTransport, n.byProtocol} {
		if left = keep(left); len(left) == 0 {
			return n.listener.DefaultFilterChain
		}
	}
	if len(left) > 1 {
		unknown("listener %q: several filter chains match the same: %s, %s", n.listener.Name, left[0].Name, left[1].Name)
	}
	return left[0]
}

// chosen is the chain whose name a tree leads to.
func (n *conn) chosen(tree *cncfmatcherv3.Matcher) *listenerv3.FilterChain {
	action := (&scope{conn: n, state: n.state, metadata: n.metadata}).onMatch(tree)
	if action == nil {
		return n.listener.DefaultFilterChain
	}
	name := unpack("listener "+n.listener.Name, action, &wrapperspb.StringValue{}).Value
	i := slices.IndexFunc(n.listener.FilterChains, func(c *listenerv3.FilterChain) bool { return c.Name == name })
	if i < 0 {
		unknown("listener %q: its tree leads to the chain %q, which is not there", n.listener.Name, name)
	}
	return n.listener.FilterChains[i]
}

// best keeps the chains whose rank is the highest, if that is above 0.
func best(chains []*listenerv3.FilterChain, rank func(*listenerv3.FilterChainMatch) int) []*listenerv3.FilterChain {
	var out []*listenerv3.FilterChain
	most := 1
	for _, c := range chains {
		switch r := rank(c.FilterChainMatch); {
		case r > most:
			most, out = r, []*listenerv3.FilterChain{c}
		case r == most:
			out = append(out, c)
		}
	}
	return out
}

func (n *conn) byPort(chains []*listenerv3.FilterChain) []*listenerv3.FilterChain {
	return best(chains, func(m *listenerv3.FilterChainMatch) int {
		switch {
		case m.GetDestinationPort() == nil:
			return 1
		case n.to.IsValid() && m.DestinationPort.Value == uint32(n.to.Port()):
			return 2
		default:
			return 0
		}
	})
}

func (n *conn) byAddress(chains []*listenerv3.FilterChain) []*listenerv3.FilterChain {
	return best(chains, func(m *listenerv3.FilterChainMatch) int {
		if len(m.GetPrefixRanges()) == 0 {
			return 1
		}
		longest := 0
		for _, r := range m.PrefixRanges {
			a, err := netip.ParseAddr(r.AddressPrefix)
			if err != nil {
				unknown("listener %q: prefix range %q", n.listener.Name, r.AddressPrefix)
			}
			p := netip.PrefixFrom(a, int(r.PrefixLen.GetValue()))
			if n.to.IsValid() && p.Contains(n.to.Addr()) {
				longest = max(longest, p.Bits()+2)
			}
		}
		return longest
	})
}

func (n *conn) byServerName(chains []*listenerv3.FilterChain) []*listenerv3.FilterChain {
	return best(chains, func(m *listenerv3.FilterChainMatch) int {
		if len(m.GetServerNames()) == 0 {
			return 1
		}
		longest := 0
		for _, name := range m.ServerNames {
			if suffix, ok := strings.CutPrefix(name, "*"); name == n.sni || (ok && strings.HasSuffix(n.sni, suffix) && len(n.sni) > len(suffix)) {
				longest = max(longest, len(name)+2)
				if !ok {
					longest = 1 << 20
				}
			}
		}
		return longest
	})
}

func (n *conn) byTransport(chains []*listenerv3.FilterChain) []*listenerv3.FilterChain {
	return best(chains, func(m *listenerv3.FilterChainMatch) int {
		switch m.GetTransportProtocol() {
		case "":
			return 1
		case n.transport:
			return 2
		default:
			return 0
		}
	})
}

func (n *conn) byProtocol(chains []*listenerv3.FilterChain) []*listenerv3.FilterChain {
	return best(chains, func(m *listenerv3.FilterChainMatch) int {
		if len(m.GetApplicationProtocols()) == 0 {
			return 1
		}
		for i, offered := range n.alpn { // the client's order
			if slices.Contains(m.ApplicationProtocols, offered) {
				return 2 + len(n.alpn) - i
			}
		}
		return 0
	})
}

// terminate ends TLS where the chain does: what is inside is looked at from then on. false is that the connection ended.
func (n *conn) terminate(c *listenerv3.FilterChain) bool {
	if c.TransportSocket == nil {
		return true
	}
	ctx := unpack("filter chain "+c.Name, c.TransportSocket.GetTypedConfig(), &tlsv3.DownstreamTlsContext{})
	h := n.bytes.Hello
	if h == nil {
		n.close("no TLS, where TLS is ended")
		return false
	}
	if ctx.RequireClientCertificate.GetValue() {
		if !verified(ctx.CommonTlsContext, h.Peer) {
			n.close("the client's certificate, of %v, is not taken", h.Peer)
			return false
		}
		n.peer = h.Peer
	}
	n.shaken, n.bytes = true, Bytes{}
	if h.Inside != nil {
		n.bytes = *h.Inside
	}
	return true
}

// verified says whether a certificate with these URI names is taken. That its issuer is the right one is supposed.
func verified(ctx *tlsv3.CommonTlsContext, peer []string) bool {
	v := ctx.GetCombinedValidationContext().GetDefaultValidationContext()
	if v == nil {
		v = ctx.GetValidationContext()
	}
	if len(peer) == 0 {
		return false
	}
	for _, m := range v.GetMatchTypedSubjectAltNames() {
		if m.SanType == tlsv3.SubjectAltNameMatcher_URI && slices.ContainsFunc(peer, func(name string) bool { return matchString(m.Matcher, name) }) {
			return true
		}
	}
	return len(v.GetMatchTypedSubjectAltNames()) == 0
}
