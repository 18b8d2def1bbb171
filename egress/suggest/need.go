package suggest

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// need is a host that has to be registered, or a port of one that is.
type need struct {
	host   string
	ports  map[uint32]string // protocols, as ServiceEntries write them
	flows  []*seen.Flow
	in     map[string]bool // namespaces whose workloads use it
	extend config.Key      // the entry of theirs that has the host without the port; zero for none
	wild   []string        // of a wildcard: the names that it is for
	guess  bool            // of the port
}

// needID tells needs apart.
type needID struct {
	host   string
	extend config.Key
}

// needs are what is missing for uses that passed unregistered, or that were denied for it.
func (w *world) needs(uses []*use) map[needID]*need {
	found, wrong := map[needID]*need{}, map[needID]string{}
	for _, u := range uses {
		if u.idle {
			continue
		}
		if u.wasAllowed() && !u.base.Allowed {
			w.result.leave(u.Flow, "it was allowed when it was seen, and is denied now: "+u.base.Reason)
			continue
		}
		if u.base.Allowed && u.base.Service != nil || u.base.Ruling != nil && !u.base.Allowed || inCluster(u) {
			continue // registered, or a policy's to say, or not outside
		}
		if by := w.closedBy(u); by.Rule != nil && !u.base.Allowed {
			w.result.leave(u.Flow, meant(by))
			continue
		}
		extend := w.lacksPort(u)
		if !u.base.Missing && extend == (config.Key{}) {
			w.result.leave(u.Flow, u.base.Reason)
			continue
		}
		if why := isInside(u.Host, u.Destinations, w.Snapshot.Mesh.DNS.PrivateFor(u.Namespace)); why != "" {
			w.result.leave(u.Flow, why)
			continue
		}
		id := needID{u.Host, extend}
		n := found[id]
		if n == nil {
			n = &need{host: u.Host, ports: map[uint32]string{}, in: map[string]bool{}, extend: extend}
			found[id] = n
		}
		protocol := protocolOf(u)
		port := u.tries[0].Port
		if was := n.ports[port]; was != "" && was != protocol {
			wrong[id] = fmt.Sprintf("port %d was seen with %s and with %s, and a port is registered with one", port, min(was, protocol), max(was, protocol))
		}
		n.ports[port] = protocol
		n.guess = n.guess || u.Port == 0
		n.flows = append(n.flows, u.Flow)
		n.in[u.Namespace] = true
	}
	for id, why := range wrong {
		w.drop(found, id, why)
	}
	return found
}

// drop takes a need away, and says why.
func (w *world) drop(needs map[needID]*need, id needID, why string) {
	n := needs[id]
	delete(needs, id)
	for i, f := range n.flows {
		if !slices.Contains(n.flows[:i], f) { // of requests one is there for each method
			w.result.leave(f, why)
		}
	}
}

// inCluster says whether it went to the cluster's own networks, which is nobody's to register.
func inCluster(u *use) bool { return strings.Contains(u.base.Reason, "cluster's own networks") }

// lacksPort gives the entry of the workload's own namespace that has the host, and not the port; the zero Key if there is none.
func (w *world) lacksPort(u *use) config.Key {
	if _, err := netip.ParseAddr(u.Host); err == nil || u.base.Missing {
		return config.Key{}
	}
	for _, svc := range w.Snapshot.Services(u.Host) {
		if _, has := svc.Port(u.tries[0].Port); has || svc.Namespace != u.Namespace || !svc.External || svc.Source.Kind != config.KindServiceEntry || svc.Resolution != registry.DNS {
			continue
		}
		if spec := w.registered(svc.Source); spec != nil && len(spec.Hosts) == 1 && len(spec.Endpoints) == 0 {
			return svc.Source
		}
	}
	return config.Key{}
}

func protocolOf(u *use) string {
	port := u.tries[0].Port
	switch {
	case registry.ServerFirst(port) || u.Protocol == "tcp":
		return "TCP"
	case u.Protocol == "http":
		return "HTTP"
	case port == 443:
		return "HTTPS"
	default:
		return "TLS"
	}
}

// ordered gives needs in order: those that were used on most days first, where only so many are wanted.
func ordered(needs map[needID]*need) []needID {
	days := func(id needID) (n int) {
		var all seen.Evidence
		for _, f := range needs[id].flows {
			all.Add(&f.Evidence)
		}
		return len(all.Days)
	}
	count := map[needID]int{}
	for id := range needs {
		count[id] = days(id)
	}
	return slices.SortedFunc(maps.Keys(needs), func(a, b needID) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a.host, b.host), a.extend.Compare(b.extend))
	})
}

// limit leaves out what is more than so many.
func (w *world) limit(needs map[needID]*need, most int) {
	for i, id := range ordered(needs) {
		if i >= most {
			w.drop(needs, id, fmt.Sprintf("more than %d hosts are to be registered (--limit), and others were used on more days", most))
		}
	}
}
