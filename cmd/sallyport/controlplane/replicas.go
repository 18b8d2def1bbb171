package controlplane

import (
	"context"
	"net"
	"strconv"

	"google.golang.org/grpc/credentials"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/meshtls"
	"github.com/sallyport/sallyport/xds/identity/servertls"
	"github.com/sallyport/sallyport/xds/replicas"
	"github.com/sallyport/sallyport/xds/serve"
)

// securePort is the one of the control plane's Service for agents, and for replicas.
const securePort = 15012

// replicas makes what replicas ask each other by, and gives the end that answers.
func (c *cluster) replicas(p *plane, authority *ca.CA) *replicas.Server {
	own := c.own(authority)
	name := servertls.ServiceHosts(c.Service, c.Namespace)[0]
	c.others = &replicas.Others{Replica: c.Replica, Credentials: credentials.NewTLS(meshtls.ClientOfName(meshtls.NewOwn(authority, own), name))}
	return &replicas.Server{Replica: c.Replica, Own: own, Ask: p.cache.Enforcing, Gateways: p.cache.Gateways}
}

// addresses are where the replicas are, this one among them.
func (c *cluster) addresses(s *registry.Snapshot) (out []string) {
	for _, svc := range s.Services(registry.Ref{Namespace: c.Namespace, Name: c.Service}.Host()) {
		port, ok := svc.Port(securePort)
		if svc.Source.Kind != config.KindService || !ok {
			continue
		}
		for _, e := range s.EndpointsOf(svc) {
			out = append(out, net.JoinHostPort(e.Address, strconv.Itoa(int(e.PortOf(port)))))
		}
	}
	return out
}

// enforcing is how far the proxies of all replicas are with a policy.
type enforcing struct {
	serve.Enforcement
	Unheard string // a replica that has not said how far its proxies are with this revision; "" where all have
	Absent  string // a gateway's pod that takes traffic, and is connected to no replica; "" where there is none
}

// together adds what the other replicas say to what is known of this one's proxies.
func (p *plane) together(ctx context.Context, own map[config.Key]serve.Enforcement) map[config.Key]enforcing {
	var said []replicas.Said
	var silent map[string]error
	s := p.snapshot.Load()
	if c := p.cluster; c.others != nil {
		keys := make([]config.Key, 0, len(own))
		for key := range own {
			keys = append(keys, key)
		}
		said, silent = c.others.Enforcing(ctx, c.addresses(s), keys)
		for address, err := range silent {
			p.log.Debug("a replica does not say how far its proxies are", "address", address, "err", err)
		}
	}
	out := sum(own, said, silent)
	connected := p.cache.Gateways()
	for _, other := range said {
		connected = append(connected, other.Gateways...)
	}
	exits := p.newExits(s, connected)
	for key, e := range out {
		e.Absent = exits.absent(key.Namespace)
		out[key] = e
	}
	return out
}

func sum(own map[config.Key]serve.Enforcement, said []replicas.Said, silent map[string]error) map[config.Key]enforcing {
	out := make(map[config.Key]enforcing, len(own))
	for key, e := range own {
		all := enforcing{Enforcement: e}
		first := func(name string) {
			if all.Unheard == "" || name < all.Unheard {
				all.Unheard = name
			}
		}
		for _, s := range said {
			theirs := s.Enforcements[key]
			if theirs.Revision != e.Revision {
				first(s.Replica)
				continue
			}
			all.Enforcement = all.Add(theirs)
		}
		for address := range silent {
			first(address)
		}
		out[key] = all
	}
	return out
}
