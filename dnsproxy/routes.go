package dnsproxy

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/dnsproxy/packet"
	"github.com/sallyport/sallyport/dnsproxy/upstream"
)

// routes says which resolvers are asked for a name.
type routes struct {
	base    *upstream.Client
	domains map[string]*upstream.Client // by lower-case wire name
}

func newRoutes(config Config, observe upstreamObserver) (*routes, error) {
	client := func(field string, servers []string) (*upstream.Client, error) {
		addrs, err := parseServers(field, servers)
		return upstream.New(upstream.Config{Servers: addrs, Patience: config.Patience, Observe: observe}), err
	}
	base, err := client("upstreams", config.Upstreams)
	if err != nil {
		return nil, err
	}
	r := &routes{base: base, domains: map[string]*upstream.Client{}}
	for domain, servers := range config.Forward {
		if err := (name.Name{Host: domain}).Validate(); err != nil {
			return nil, fmt.Errorf("dns: forward: %w", err)
		}
		if len(servers) == 0 {
			return nil, fmt.Errorf("dns: forward[%q] has no resolver; give at least one IP or IP:PORT", domain)
		}
		if r.domains[string(packet.AppendName(nil, domain))], err = client(fmt.Sprintf("forward[%q]", domain), servers); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// client returns the one for the longest domain at or above the name.
func (r *routes) client(lower []byte) *upstream.Client {
	if len(r.domains) > 0 {
		for domain := lower; len(domain) > 1; domain = packet.Parent(domain) {
			if c, ok := r.domains[string(domain)]; ok {
				return c
			}
		}
	}
	return r.base
}

// parseServers reads IP or IP:PORT.
func parseServers(field string, servers []string) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for i, text := range servers {
		text = strings.TrimSpace(text)
		addr, err := netip.ParseAddrPort(text)
		if err != nil {
			ip, err := netip.ParseAddr(strings.Trim(text, "[]"))
			if err != nil {
				return nil, fmt.Errorf("dns: %s[%d] %q: not an address; write IP or IP:PORT, as in 10.96.0.10 or [2001:db8::53]:53", field, i, text)
			}
			addr = netip.AddrPortFrom(ip, 53)
		}
		if addr.Port() == 0 {
			return nil, fmt.Errorf("dns: %s[%d] %q: port 0 cannot be asked", field, i, text)
		}
		if !slices.Contains(out, addr) {
			out = append(out, addr)
		}
	}
	return out, nil
}

// useResolvConf takes the nameservers of a resolv.conf, save those in own: a resolver that asks itself never answers.
func (s *Server) useResolvConf(content []byte) {
	parsed, err := dns.ClientConfigFromReader(bytes.NewReader(content))
	if err != nil {
		s.config.Log.Warn("resolv.conf is unreadable, its last good version stays", "file", s.config.ResolvConf, "error", err)
		return
	}
	var addrs []netip.AddrPort
	for _, server := range parsed.Servers {
		ip, err := netip.ParseAddr(server)
		if addr := netip.AddrPortFrom(ip, 53); err == nil && !s.listensOn(addr) && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) == 0 {
		s.config.Log.Warn("resolv.conf names no resolver to ask, its last good version stays", "file", s.config.ResolvConf)
		return
	}
	s.routes.base.SetServers(addrs)
	s.config.Log.Info("upstream resolvers taken from resolv.conf", "file", s.config.ResolvConf, "upstreams", addrs)
}
