package registry

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
)

// taking gives the servers at an ingress gateway's pods what they open, one after the other.
type taking struct {
	s     *Snapshot
	at    string // the pods' namespace
	ports map[openedPort]*portTaken
	// below are, by the tails of patterns, the VirtualServices by which names below these are asked for; nil where nobody wanted to know.
	below map[string][]*VirtualService
}

// owner says whose a host is already; "" where the server may have it.
func (t *taking) owner(p *portTaken, host string, o *IngressServer) string {
	if by := p.owner(host, o); by != nil {
		return by.Key.String() + "'s"
	}
	if v, from := t.led(p, host, o); v != nil {
		return ledAlready + v.Key.String() + " leads from " + from.Key.String()
	}
	return ""
}

// ledAlready is how it is said of a host that it is a VirtualService's.
const ledAlready = "what "

// LedAlready says whether a server is closed, or one of its hosts, for what a VirtualService leads (IngressServer.Closed).
func LedAlready(closed string) bool {
	return strings.HasPrefix(closed, "hosts: ") && strings.Contains(closed, " is "+ledAlready)
}

// led is the VirtualService that leads a host, some of what is below a pattern, or a pattern over it, from a server of another namespace that has all hosts there are
// ("*"), and comes before the Gateway which names it: nobody takes by naming it what somebody else has. What the other Gateway's own namespace leads by a
// pattern is what nobody else names: the pattern can be written into the Gateway.
func (t *taking) led(p *portTaken, host string, o *IngressServer) (by *VirtualService, from *Gateway) {
	if host == "*" || len(p.all) == 0 || p.all[0].Gateway.Key.Namespace == o.Gateway.Key.Namespace { // "*" is one namespace's
		return nil, nil
	}
	for _, list := range [...][]*VirtualService{t.asking(host), t.s.AskedAlso(host), t.askedBelow(host)} {
		for _, v := range list {
			if !t.before(v, o.Gateway) {
				continue
			}
			for _, all := range p.all {
				if v.At(all.Path()) && all.leads(v, host) {
					return v, all.Gateway
				}
			}
		}
	}
	return nil, nil
}

func (t *taking) asking(name string) []*VirtualService {
	list, _ := t.s.Asking(name)
	return list
}

// askedBelow gives the VirtualServices by which names below a pattern are asked for.
func (t *taking) askedBelow(pattern string) []*VirtualService {
	if !strings.HasPrefix(pattern, "*.") {
		return nil
	}
	if t.below == nil {
		t.below = map[string][]*VirtualService{}
		t.s.names.Walk(func(name string, by []asker) bool {
			for tail := widerRule(tailOf(name)); tail != "" && tail != "*"; tail = widerRule(tail) {
				for _, a := range by {
					if list := t.below[tail]; a.routes != nil && (len(list) == 0 || list[len(list)-1] != a.routes) {
						t.below[tail] = append(list, a.routes)
					}
				}
			}
			return true
		})
	}
	return t.below[tailOf(pattern)]
}

// before says whether a VirtualService has what it leads before somebody else's Gateway: it is of the namespace of the pods, or of the root's, and that is not, or it is
// older. Whoever has it lead from one of the same namespace as that has let it.
func (t *taking) before(v *VirtualService, g *Gateway) bool {
	ns := g.Key.Namespace
	if v.Key.Namespace == ns || !v.ExportTo.Includes(t.at) || slices.ContainsFunc(v.Gateways, func(at string) bool { return strings.HasPrefix(at, ns+"/") }) {
		return false
	}
	theirs, own := t.s.rankOfNamespace(v.Key.Namespace, t.at), t.s.rankOfNamespace(ns, t.at)
	return theirs < own || theirs == own && v.Created.Before(g.Created)
}

// leads says whether a VirtualService leads a host from the server, some of what is below, or, of another namespace, a pattern over it.
func (o *IngressServer) leads(v *VirtualService, host string) bool {
	for _, h := range v.Hosts {
		for _, name := range o.Lets(v.Key.Namespace, h) {
			if Covers(host, name) || name != "*" && v.Key.Namespace != o.Gateway.Key.Namespace && Covers(name, host) {
				return true
			}
		}
	}
	return false
}

// noteGatewayHosts notes the hosts that a Gateway of Istio's names, but for "*".
func (b *batch) noteGatewayHosts(g *Gateway, there bool) {
	if g == nil || g.Key.Kind != config.KindGateway {
		return
	}
	for i := range g.Servers {
		for _, f := range g.Servers[i].Hosts {
			if f.Host != "*" {
				b.index.gatewayHosts.note(f.Host, g.Key, there)
			}
		}
	}
}

// touchContested has what gateways open found again where a VirtualService leads, or led, from one that has all hosts, what another namespace's Gateway names.
func (b *batch) touchContested(v *VirtualService) {
	if len(b.index.gatewayHosts) == 0 || !slices.ContainsFunc(v.Gateways, b.hasAll) {
		return
	}
	again := func(host string) {
		for key := range b.index.gatewayHosts[host] {
			if key.Namespace != v.Key.Namespace {
				b.next.opened, b.changed.Gateways = &openedServers{}, true
				b.nameCovered(host)
				return
			}
		}
	}
	for _, host := range v.Hosts {
		again(host)
		for tail := widerRule(tailOf(host)); tail != "" && tail != "*"; tail = widerRule(tail) {
			again("*" + tail)
		}
		if strings.HasPrefix(host, "*.") {
			for named := range b.index.gatewayHosts {
				if named != host && Covers(host, named) {
					again(named)
				}
			}
		}
	}
}

// hasAll says whether a Gateway, or a listener, has all hosts.
func (b *batch) hasAll(ref string) bool {
	return slices.ContainsFunc(b.serversOf(ref), func(s GatewayServer) bool {
		return slices.ContainsFunc(s.Hosts, func(f HostFilter) bool { return f.Host == "*" })
	})
}
