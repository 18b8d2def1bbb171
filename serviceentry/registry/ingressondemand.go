package registry

import (
	"slices"
	"strings"
)

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

// uncovered leaves out the servers with a host below a pattern of one that keeps its chain, whose chain would take what is for them; and then those below a pattern of these.
func (o *IngressPorts) uncovered(x *onDemand) []*IngressServer {
	left := x.servers
	for {
		in := map[*IngressServer]bool{}
		for _, s := range left {
			in[s] = true
		}
		tails := o.tails(func(s *IngressServer) bool { return s.Listen == x.port && s.Serves.Family() == PassesTLS && !in[s] })
		var out []*IngressServer
		for _, s := range left {
			if !slices.ContainsFunc(s.Hosts, func(f HostFilter) bool { return isBelow(f.Host, tails) }) {
				out = append(out, s)
			}
		}
		if len(out) == len(left) {
			return left
		}
		left = out
	}
}

// tails are the patterns of some servers, without their "*".
func (o *IngressPorts) tails(of func(*IngressServer) bool) map[string]bool {
	tails := map[string]bool{}
	for _, s := range o.Servers {
		if !of(s) {
			continue
		}
		for _, f := range s.Hosts {
			if tail, pattern := strings.CutPrefix(f.Host, "*"); pattern {
				tails[tail] = true
			}
		}
	}
	return tails
}

// isBelow says whether a pattern with one of the tails covers a host, and is not the host itself. "*" covers all.
func isBelow(host string, tails map[string]bool) bool {
	host = strings.TrimPrefix(host, "*")
	for i := range len(host) {
		if host[i] == '.' && i > 0 && tails[host[i:]] {
			return true
		}
	}
	return tails[""]
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
