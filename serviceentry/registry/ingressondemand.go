package registry

import "strings"

// MostChains is how many servers of a port that end TLS in the usual way have a filter chain each. Of more, all have one together, which finds the
// certificate on demand, by the name that a client says: each costs its own then, and none the others'. Few keep their chains, since Envoy does not
// resume sessions where certificates are found on demand.
const MostChains = 32

// onDemand are servers of one port whose certificates may be found on demand. Those of Istio's Gateways share a table, and listeners of the Gateway
// API, which are alone, do not lead to each other: it is one kind at a port, the more numerous.
type onDemand struct {
	port    uint32
	alone   bool
	servers []*IngressServer
}

// chooseOnDemand marks the servers whose certificates are found on demand: at one port, since what Envoy asks by is the name alone.
func (o *IngressPorts) chooseOnDemand() {
	var all []*onDemand
	for _, s := range o.Servers {
		if !s.findable() {
			continue
		}
		var of *onDemand
		for _, x := range all {
			if x.port == s.Listen && x.alone == s.Alone {
				of = x
			}
		}
		if of == nil {
			of = &onDemand{port: s.Listen, alone: s.Alone}
			all = append(all, of)
		}
		of.servers = append(of.servers, s)
	}
	var best *onDemand
	for _, x := range all {
		x.servers = o.uncovered(x)
		if len(x.servers) > MostChains && (best == nil || len(x.servers) > len(best.servers) || len(x.servers) == len(best.servers) && x.port < best.port) {
			best = x
		}
	}
	if best != nil {
		for _, s := range best.servers {
			s.OnDemand = true
		}
	}
}

// findable says whether a server's certificate can be found on demand: it has one, and asks for nothing else. A pattern of the Gateway API's is not,
// since what a narrower one has is to be told from it.
func (o *IngressServer) findable() bool {
	return o.Serves == ServesTLSRequests && o.TLS.Plain() && len(o.TLS.Credentials) <= 1 && !(o.Alone && strings.HasPrefix(o.GatewayServer.Hosts[0].Host, "*"))
}

// uncovered leaves out the servers with a host below a pattern of one that keeps its chain, whose chain would take what is for them.
func (o *IngressPorts) uncovered(x *onDemand) (out []*IngressServer) {
	tails := map[string]bool{}
	for _, s := range o.Servers {
		if s.Listen != x.port || s.Serves.Family() != PassesTLS || s.findable() && s.Alone == x.alone {
			continue
		}
		for _, f := range s.Hosts {
			if tail, pattern := strings.CutPrefix(f.Host, "*"); pattern {
				tails[tail] = true
			}
		}
	}
	if len(tails) == 0 {
		return x.servers
	}
	below := func(host string) bool {
		host = strings.TrimPrefix(host, "*")
		for i := range len(host) {
			if host[i] == '.' && i > 0 && tails[host[i:]] {
				return true
			}
		}
		return tails[""]
	}
	for _, s := range x.servers {
		covered := false
		for _, f := range s.Hosts {
			covered = covered || below(f.Host)
		}
		if !covered {
			out = append(out, s)
		}
	}
	if len(out) == len(x.servers) {
		return out
	}
	return o.withoutBelow(x, out)
}

// withoutBelow goes on where a pattern has to keep its chain for one above it: what is below it keeps its own, too.
func (o *IngressPorts) withoutBelow(x *onDemand, servers []*IngressServer) []*IngressServer {
	in := map[*IngressServer]bool{}
	for _, s := range servers {
		in[s] = true
	}
	for {
		n := len(in)
		for _, kept := range x.servers {
			if in[kept] {
				continue
			}
			for _, f := range kept.Hosts {
				if !strings.HasPrefix(f.Host, "*") {
					continue
				}
				for s := range in {
					for _, g := range s.Hosts {
						if g.Host != f.Host && Covers(f.Host, g.Host) {
							delete(in, s)
						}
					}
				}
			}
		}
		if len(in) == n {
			break
		}
	}
	var out []*IngressServer
	for _, s := range servers {
		if in[s] {
			out = append(out, s)
		}
	}
	return out
}

// distinct are the servers that differ in the table which says what happens to requests inside of TLS: of those on demand the first stands for all.
func distinct(servers []*IngressServer) (out []*IngressServer) {
	found := false
	for _, s := range servers {
		if s.Serves != ServesTLSRequests || s.OnDemand && found {
			continue
		}
		found = found || s.OnDemand
		out = append(out, s)
	}
	return out
}
