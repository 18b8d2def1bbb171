package registry

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// TestCertificatesOnDemand: which servers share a chain, by what others want of the names.
func TestCertificatesOnDemand(t *testing.T) {
	server := func(port uint32, alone bool, kind ServerKind, hosts ...string) *IngressServer {
		s := &IngressServer{GatewayServer: &GatewayServer{Serves: kind, Alone: alone}, Listen: port}
		if kind.EndsTLS() {
			s.TLS = &ServerTLS{Credentials: []string{"c"}}
		}
		for _, h := range hosts {
			s.Hosts = append(s.Hosts, HostFilter{"*", h})
		}
		s.GatewayServer.Hosts = s.Hosts
		return s
	}
	usual := func(port uint32, alone bool, n int) (out []*IngressServer) {
		for i := range n {
			out = append(out, server(port, alone, ServesTLSRequests, fmt.Sprintf("h%d.test", i)))
		}
		return out
	}
	mutual := server(443, false, ServesTLSRequests, "*.m.test")
	mutual.TLS.Clients = Required
	two := server(443, false, ServesTLSRequests, "two.test")
	two.TLS.Credentials = []string{"rsa", "ecdsa"}
	for name, c := range map[string]struct {
		servers []*IngressServer
		want    int      // how many share
		not     []string // hosts that do not
	}{
		"few":                 {usual(443, false, MostChains), 0, nil},
		"one more":            {usual(443, false, MostChains+1), MostChains + 1, nil},
		"listeners":           {usual(443, true, MostChains+1), MostChains + 1, nil},
		"patterns":            {append(usual(443, false, 40), server(443, false, ServesTLSRequests, "*.x.test"), server(443, false, ServesTLSRequests, "*")), 42, nil},
		"listeners' patterns": {append(usual(443, true, 40), server(443, true, ServesTLSRequests, "*.x.test"), server(443, true, ServesTLSRequests, "a.x.test")), 42, nil},
		"one for all":         {append(usual(443, true, 40), server(443, true, ServesTLSRequests, "*")), 41, nil},
		"one that passes all": {append(usual(443, true, 40), server(443, true, PassesTLS, "*")), 0, nil},
		"below another's": {append(usual(443, false, 40), mutual, two, server(443, false, ServesTLSRequests, "a.m.test"), server(443, false, ServesTLSRequests, "*.b.m.test"), server(443, false, ServesTLSRequests, "m.test")), 41,
			[]string{"*.m.test", "a.m.test", "*.b.m.test", "two.test"}},
		"a pattern above and below": {append(usual(443, false, 40), server(443, false, PassesTLS, "*.p.test"), server(443, false, ServesTLSRequests, "x.p.test", "*.q.test"), server(443, false, ServesTLSRequests, "y.q.test")), 40, []string{"x.p.test", "y.q.test"}},
		"two ports":                 {append(usual(443, false, 40), usual(8443, false, 41)...), 40, nil},
		"both kinds":                {append(usual(443, false, 40), server(443, true, ServesTLSRequests, "z.test")), 40, []string{"z.test"}},
	} {
		o := &IngressPorts{Servers: c.servers}
		o.chooseOnDemand()
		n := 0
		for _, s := range c.servers {
			if !s.OnDemand {
				continue
			}
			n++
			if host := s.Hosts[0].Host; slices.Contains(c.not, host) {
				t.Errorf("%s: %s shares", name, host)
			}
		}
		if n != c.want {
			t.Errorf("%s: %d share, want %d", name, n, c.want)
		}
		if apart := distinct(c.servers); n > 0 && len(apart) > len(c.servers)-n+1 {
			t.Errorf("%s: %d tables, want one for those that share", name, len(apart))
		}
		if name == "two ports" && slices.ContainsFunc(c.servers, func(s *IngressServer) bool { return s.OnDemand && s.Listen != 443 }) {
			t.Errorf("%s: they share at the one that had fewer than the other when it had too many", name)
		}
	}
}

// TestChainsOfSetsAreSharedOut: listeners of ListenerSets beyond those that may have a filter chain are closed, and some of each namespace are not.
func TestChainsOfSetsAreSharedOut(t *testing.T) {
	o := &IngressPorts{}
	add := func(ns string, n int) (list []*IngressServer) {
		for i := range n {
			s := &IngressServer{GatewayServer: &GatewayServer{Serves: PassesTLS, Alone: true, Ref: fmt.Sprintf("infra/kgw/%s/set/l%d", ns, i)}, Listen: 443}
			o.Servers, list = append(o.Servers, s), append(list, s)
		}
		return list
	}
	b, a := add("b", gatewayapi.MostSetChains+1), add("a", gatewayapi.AlwaysSetChains+1)
	o.closeTooMany()
	for _, list := range [][]*IngressServer{b, a} {
		for i, s := range list {
			if closed := s.Serves == NotServed; closed != (i == len(list)-1) {
				t.Errorf("%s closed: %v, %q", s.Ref, closed, s.Closed)
			}
		}
	}
}
