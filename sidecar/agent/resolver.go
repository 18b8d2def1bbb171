package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/dnsproxy"
	"github.com/sallyport/sallyport/dnsproxy/limit"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/relay"
)

const resolvConf = "/etc/resolv.conf"

// meshNames are those that the cluster's own DNS answers, with the private addresses of its services. A sidecar reaches
// them as its pod does; through an egress gateway they are nobody's way in.
const meshNames = "*.svc.cluster.local"

// The sides of the DNS server: the applications', which only sidecars have, and Envoy's.
const (
	appView      = "app"
	resolverView = "resolver"
)

// envoysTTL is how soon Envoy asks again. Names that patterns have it look up it forgets when it asks, not before, whatever nobody needs any more: who
// chooses TTLs would choose how long they stay, and there is room for so many. What is asked is answered from memory.
const envoysTTL = 30 * time.Second

// resolver is the pod's DNS server, and what the controller may change about it.
type resolver struct {
	*dnsproxy.Server
	config   *Config
	refusals *refusals
	relay    *relay.Relay            // of a sidecar: has what names lead to; it comes after the server, before its first question
	flags    inside.Allowed          // what may be private whatever the controller says
	allowed  atomic.Pointer[answers] // the same, and what the controller says
	beside   func(name.Defaults)     // takes what the controller says that is not about names
}

// resolver makes the pod's DNS server. A sidecar's has two sides: the applications', which knows the mesh's names,
// and Envoy's own, which must not, for an allocated address is no place to connect to. What Envoy is told is where it
// connects, so that side refuses addresses of the inside.
func (c *Config) resolver(metrics prometheus.Registerer, refusals *refusals, beside func(name.Defaults)) (*resolver, error) {
	r := &resolver{config: c, refusals: refusals, beside: beside}
	var err error
	if r.flags, err = inside.Parse(c.AllowPrivate); err != nil {
		return nil, err
	}
	config := dnsproxy.Config{
		Upstreams: c.DNSUpstream, Prefetch: true, Log: c.Log, OnRefuse: refusals.noteAnswer, OnDeny: refusals.noteQuestion,
	}
	if len(c.DNSUpstream) == 0 {
		config.ResolvConf = resolvConf
	}
	envoys := dnsproxy.View{Name: resolverView, Listen: []string{c.DNSAddr}, Refuse: r.refuses, MaxTTL: envoysTTL}
	config.Views = []dnsproxy.View{envoys}
	if c.forApps() {
		mesh, err := inside.Parse([]string{meshNames})
		if err != nil {
			return nil, err
		}
		r.flags = r.flags.With(mesh)
		envoys.Listen = []string{c.ResolverAddr}
		config.Views = []dnsproxy.View{{Name: appView, Listen: c.appsAt(), Asker: c.asker(), Names: true, Search: c.searchDomains(), Use: r.useName}, envoys}
	}
	r.allowed.Store(&answers{private: r.flags})
	if r.Server, err = dnsproxy.New(config); err != nil {
		return nil, err
	}
	return r, metrics.Register(r.Server)
}

// appsAt is where a sidecar's pod asks. A node's pods ask in their own networks.
func (c *Config) appsAt() []string {
	if c.node() {
		return nil
	}
	return []string{c.DNSAddr}
}

// asker is the sidecar's own workload, where nobody else can ask. A node's agent says whose each socket is that it opens.
func (c *Config) asker() *dnsproxy.Asker {
	at, err := netip.ParseAddrPort(c.DNSAddr)
	if c.node() || err != nil || !at.Addr().IsLoopback() {
		return nil
	}
	own := askerOf(c.origin().Workload)
	return &own
}

// searchDomains are those that Kubernetes writes into every pod's resolv.conf.
func (c *Config) searchDomains() []string {
	if c.node() { // its pods are of several namespaces
		return []string{"svc.cluster.local", "cluster.local"}
	}
	return []string{c.Proxy.Namespace + ".svc.cluster.local", "svc.cluster.local", "cluster.local"}
}

// refuses has the shape of dnsproxy.View.Refuse.
func (r *resolver) refuses(host string, addr netip.Addr) bool {
	return r.allowed.Load().refuses(host, addr)
}

// answers is what Envoy may be told.
type answers struct {
	private inside.Allowed
	never   []netip.Addr // nor by any other of their forms
}

func (a *answers) refuses(host string, addr netip.Addr) bool {
	return a.private.Refuses(host, addr) || slices.Contains(a.never, inside.Plain(addr))
}

// use does with names that are not in the table as the controller says. Resolvers that a flag names stay: who starts the
// agent knows its network better. What is wrong keeps its last good value, and the rest takes effect.
func (r *resolver) use(rest name.Defaults) error {
	r.beside(rest)
	err := errors.Join(r.usePolicy(rest), r.useUpstreams(rest), r.usePrivate(rest))
	r.Flush() // what is kept was asked of others, or has lost addresses that are allowed now
	return err
}

func (r *resolver) usePolicy(rest name.Defaults) error {
	if !r.config.forApps() {
		return nil
	}
	by := record.ParseObject(rest.DecidedBy)
	r.refusals.decides(by)
	return r.SetPolicy(appView, dnsproxy.Policy{
		RefuseUnregistered: rest.Refuse, Refusal: refusalBy(by), Local: rest.Local, LocalReverse: true, StripECH: !rest.KeepECH,
		Upstream: limit.Rate{PerSecond: rest.Rate}, Odd: limit.Rate{PerSecond: rest.OddRate},
	})
}

// refusalBy is what a pod's resolver says of names that it refuses.
func refusalBy(o record.Object) string {
	if o.IsZero() {
		return "nobody registered the name"
	}
	return fmt.Sprintf("nobody registered the name: refused by %s %s/%s; a ServiceEntry with this host allows it", o.Kind, o.Namespace, o.Name)
}

func (r *resolver) useUpstreams(rest name.Defaults) error {
	upstreams := r.config.DNSUpstream
	if len(upstreams) == 0 {
		upstreams = rest.Upstreams
	}
	forward := map[string][]string{}
	for _, f := range rest.Forward {
		forward[f.Domain] = f.Upstreams
	}
	return r.SetUpstreams(upstreams, forward)
}

func (r *resolver) usePrivate(rest name.Defaults) error {
	allowed, err := inside.Parse(rest.AllowPrivate)
	if err != nil {
		return err
	}
	next := &answers{private: r.flags.With(allowed)}
	for _, text := range rest.Never {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("never %q: no address", text)
		}
		next.never = append(next.never, inside.Plain(addr))
	}
	r.allowed.Store(next)
	return nil
}
