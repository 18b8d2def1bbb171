package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// MostChains is how many servers of a port that end TLS in the usual way have a filter chain each. Of more, all have one together, which finds the
// certificate on demand, by the name that a client says: each costs its own then, and none the others'. Few keep their chains, since Envoy does not
// resume sessions where certificates are found on demand.
const MostChains = gatewayapi.MostChains

// onDemand are servers of one port whose certificates may be found on demand. Those of Istio's Gateways share a table, and listeners of the Gateway
// API, which are alone, do not lead to each other: it is one kind at a port.
type onDemand struct {
	port    uint32
	alone   bool
	servers []*IngressServer
	passed  int // where its servers passed MostChains, among all: at the oldest one's beyond
}

// chooseOnDemand marks the servers whose certificates are found on demand: at one port, since what Envoy asks by is the name alone. It is that which has
// had too many for the longest, so that nobody takes it away from others by what they add at another.
func (o *IngressPorts) chooseOnDemand() {
	var all []*onDemand
	for at, s := range o.Servers {
		if !s.findable() {
			continue
		}
		i := slices.IndexFunc(all, func(x *onDemand) bool { return x.port == s.Listen && x.alone == s.Alone })
		if i < 0 {
			i, all = len(all), append(all, &onDemand{port: s.Listen, alone: s.Alone, passed: len(o.Servers)})
		}
		x := all[i]
		if x.servers, s.among = append(x.servers, s), x; len(x.servers) == MostChains+1 {
			x.passed = at
		}
	}
	var best *onDemand
	for _, x := range all {
		if o.leaveOutCovered(x); len(x.servers) > MostChains && (best == nil || x.passed < best.passed) {
			best = x
		}
	}
	if best == nil {
		return
	}
	o.Shared = best.servers
	for _, s := range o.Shared {
		s.OnDemand = true
	}
}

// findable says whether a server's certificate can be found on demand: it has one, and asks for nothing else.
func (o *IngressServer) findable() bool {
	return o.Serves == ServesTLSRequests && o.TLS.Plain() && len(o.TLS.Credentials) <= 1
}

// leaveOutCovered leaves out the servers with a host below a pattern of one that keeps its chain, whose chain would take what is for them; and then those below a pattern of these.
func (o *IngressPorts) leaveOutCovered(x *onDemand) {
	for {
		tails := o.tails(func(s *IngressServer) bool {
			return s.Listen == x.port && s.among != x && s.Serves.Family() == PassesTLS
		})
		if len(tails) == 0 {
			return
		}
		var left []*IngressServer
		for _, s := range x.servers {
			if slices.ContainsFunc(s.Hosts, func(f HostFilter) bool { return isBelow(f.Host, tails) }) {
				s.among = nil
			} else {
				left = append(left, s)
			}
		}
		if len(left) == len(x.servers) {
			return
		}
		x.servers = left
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

// closeTooMany closes listeners of ListenerSets that would have a filter chain each beyond what is told apart by chains: with each, all of its port are
// sent again, and all names have a row that says it is not theirs. A Gateway counts them, too (gatewayapi.Open); here are more where an agent does not
// find certificates by name, or several Gateways open a port.
func (o *IngressPorts) closeTooMany() {
	n, of := 0, map[string]int{} // by namespace
	for _, s := range o.Servers {
		if s.Serves.Family() != PassesTLS || s.OnDemand || s.Ref == "" {
			continue
		}
		set, is := gatewayapi.SetOf(s.Ref)
		if !is {
			continue
		}
		n++
		of[set.Namespace]++
		if n > gatewayapi.MostSetChains && of[set.Namespace] > gatewayapi.AlwaysSetChains {
			s.close(fmt.Sprintf("more than %d listeners of ListenerSets, beside %d of each namespace, would have a filter chain each here", gatewayapi.MostSetChains, gatewayapi.AlwaysSetChains))
			s.Hosts = nil
		}
	}
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
