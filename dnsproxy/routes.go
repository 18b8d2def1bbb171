package dnsproxy

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"

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
	client := func(field string, texts []string) (*upstream.Client, error) {
		servers, err := parseServers(field, texts)
		return upstream.New(upstream.Config{Servers: servers, Patience: config.Patience, Roots: config.UpstreamRoots, Observe: observe}), err
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

// close ends the connections to all of them.
func (r *routes) close() {
	r.base.Close()
	for _, c := range r.domains {
		c.Close()
	}
}

// all yields the default ones, then those of each domain in order.
func (r *routes) all() iter.Seq2[string, *upstream.Client] {
	return func(yield func(string, *upstream.Client) bool) {
		if !yield("", r.base) {
			return
		}
		for _, domain := range slices.Sorted(maps.Keys(r.domains)) {
			if !yield(packet.Text([]byte(domain)), r.domains[domain]) {
				return
			}
		}
	}
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

// parseServers reads them as upstream.ParseServer does, each once.
func parseServers(field string, texts []string) ([]upstream.Server, error) {
	var out []upstream.Server
	for i, text := range texts {
		server, err := upstream.ParseServer(text)
		if err != nil {
			return nil, fmt.Errorf("dns: %s[%d] %w", field, i, err)
		}
		if !slices.Contains(out, server) {
			out = append(out, server)
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
	var servers []upstream.Server
	for _, text := range parsed.Servers {
		server, err := upstream.ParseServer(text)
		if err == nil && !s.listensOn(server.Addr) && !slices.Contains(servers, server) {
			servers = append(servers, server)
		}
	}
	if len(servers) == 0 {
		s.config.Log.Warn("resolv.conf names no resolver to ask, its last good version stays", "file", s.config.ResolvConf)
		return
	}
	s.routes.base.SetServers(servers)
	s.config.Log.Info("upstream resolvers taken from resolv.conf", "file", s.config.ResolvConf, "upstreams", servers)
}
