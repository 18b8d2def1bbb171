package dnsproxy

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/dnsproxy/packet"
	"github.com/sallyport/sallyport/dnsproxy/upstream"
)

// routes says which resolvers are asked for a name.
type routes struct {
	config  Config
	observe upstreamObserver
	base    *upstream.Client
	domains atomic.Pointer[map[string]*upstream.Client] // by lower-case wire name

	mu    sync.Mutex                  // one writer
	found []upstream.Server           // of Config, or of its resolv.conf
	set   []upstream.Server           // by Server.SetUpstreams; they come before found
	known map[string]*upstream.Client // of every domain that there ever was: what is asked of them may still be under way
}

func newRoutes(config Config, observe upstreamObserver) (*routes, error) {
	r := &routes{config: config, observe: observe, known: map[string]*upstream.Client{}}
	r.domains.Store(&map[string]*upstream.Client{})
	r.base = r.client()
	var err error
	if r.found, err = parseServers("upstreams", config.Upstreams); err != nil {
		return nil, err
	}
	return r, r.use(nil, config.Forward)
}

func (r *routes) client() *upstream.Client {
	return upstream.New(upstream.Config{Patience: r.config.Patience, FirstAttempt: r.config.firstAttempt, Roots: r.config.UpstreamRoots, Observe: r.observe})
}

// use asks these from now on; without upstreams, those that were found. On an error all stays as it was.
func (r *routes) use(upstreams []string, forward map[string][]string) error {
	set, err := parseServers("upstreams", upstreams)
	if err != nil {
		return err
	}
	servers := map[string][]upstream.Server{}
	for domain, texts := range forward {
		if err := (name.Name{Host: domain}).Validate(); err != nil {
			return fmt.Errorf("dns: forward: %w", err)
		}
		if len(texts) == 0 {
			return fmt.Errorf("dns: forward[%q] has no resolver; give at least one IP or IP:PORT", domain)
		}
		if servers[string(packet.AppendName(nil, domain))], err = parseServers(fmt.Sprintf("forward[%q]", domain), texts); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set = set
	r.settle()
	next := map[string]*upstream.Client{}
	for domain, list := range servers {
		if r.known[domain] == nil {
			r.known[domain] = r.client()
		}
		next[domain] = r.known[domain]
		next[domain].SetServers(list)
	}
	r.domains.Store(&next)
	for domain, c := range r.known {
		if next[domain] == nil {
			c.SetServers(nil)
		}
	}
	return nil
}

// find notes what the machine says about its resolvers.
func (r *routes) find(servers []upstream.Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = servers
	r.settle()
}

func (r *routes) settle() {
	if len(r.set) > 0 {
		r.base.SetServers(r.set)
	} else {
		r.base.SetServers(r.found)
	}
}

// close ends the connections to all of them.
func (r *routes) close() {
	r.base.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.known {
		c.Close()
	}
}

// all yields the default ones, then those of each domain in order.
func (r *routes) all() iter.Seq2[string, *upstream.Client] {
	return func(yield func(string, *upstream.Client) bool) {
		if !yield("", r.base) {
			return
		}
		domains := *r.domains.Load()
		for _, domain := range slices.Sorted(maps.Keys(domains)) {
			if !yield(packet.Text([]byte(domain)), domains[domain]) {
				return
			}
		}
	}
}

// of returns the client for the longest domain at or above the name.
func (r *routes) of(lower []byte) *upstream.Client {
	if domains := *r.domains.Load(); len(domains) > 0 {
		for domain := lower; len(domain) > 1; domain = packet.Parent(domain) {
			if c, ok := domains[string(domain)]; ok {
				return c
			}
		}
	}
	return r.base
}

// SetUpstreams replaces Config.Upstreams and Config.Forward for the questions from now on. Without upstreams those of
// Config, or of its resolv.conf, are asked again. What is kept was said by others: Flush. On an error nothing changes.
func (s *Server) SetUpstreams(upstreams []string, forward map[string][]string) error {
	return s.routes.use(upstreams, forward)
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
	s.routes.find(servers)
	s.config.Log.Info("upstream resolvers taken from resolv.conf", "file", s.config.ResolvConf, "upstreams", servers)
}
