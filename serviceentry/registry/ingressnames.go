package registry

import (
	"iter"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// asker is an object by which a name may be asked for.
type asker struct {
	by     config.Key
	routes *VirtualService // nil: a Gateway
}

// Names goes through what ingress gateways may be asked for; of TCP, ":PORT".
func (s *Snapshot) Names() iter.Seq[string] {
	return func(yield func(string) bool) { s.names.Walk(func(name string, _ []asker) bool { return yield(name) }) }
}

// HasName says whether there is such a name.
func (s *Snapshot) HasName(name string) bool { _, ok := s.names.Get(name); return ok }

// Asking gives the VirtualServices by which a name may be asked for, in order of age, and the Gateways that have it redirected.
func (s *Snapshot) Asking(name string) (list []*VirtualService, gateways []config.Key) {
	all, _ := s.names.Get(name)
	for _, a := range all {
		if a.routes == nil {
			gateways = append(gateways, a.by)
		} else {
			list = append(list, a.routes)
		}
	}
	slices.SortFunc(list, (*VirtualService).compare)
	return list, gateways
}

// AnyAsking says whether one of the VirtualServices by which a name may be asked for is like that.
func (s *Snapshot) AnyAsking(name string, is func(*VirtualService) bool) bool {
	all, _ := s.names.Get(name)
	return slices.ContainsFunc(all, func(a asker) bool { return a.routes != nil && is(a.routes) })
}

// AskedAlso gives, in order of age, the VirtualServices by which patterns that cover a name are asked for, but for "*".
func (s *Snapshot) AskedAlso(name string) (out []*VirtualService) {
	for pattern := name; ; {
		next := widerRule(tailOf(pattern))
		if next == "" || next == "*" {
			break
		}
		pattern = "*" + next
		list, _ := s.Asking(pattern)
		out = append(out, list...)
	}
	slices.SortFunc(out, (*VirtualService).compare)
	return out
}

// putLeading notes a VirtualService with the hosts that it leads to. Those of ingress gateways are looked at again.
func (b *batch) putLeading(host string, v *VirtualService, there bool) {
	old, _ := b.leading.Get(host)
	list := slices.DeleteFunc(slices.Clone(old), func(x *VirtualService) bool { return x.Key == v.Key })
	if there {
		list = append(list, v)
		slices.SortFunc(list, (*VirtualService).compare)
	}
	if len(list) == 0 {
		b.leading.Delete(host)
	} else {
		b.leading.Put(host, list)
	}
	if v.forGateways() {
		maps.Copy(b.retold, b.index.gatewayAPI.targets[host])
		b.led[host] = true
	}
	if v.At(route.Mesh) {
		b.changed.Gateways = true // it may lead to an egress gateway
	}
}

// passes says whether any Gateway passes mutual TLS on.
func (s *Snapshot) passes() bool {
	for _, g := range s.gateways {
		if g.Key.Kind == config.KindGateway && slices.ContainsFunc(g.Servers, func(s GatewayServer) bool { return s.Serves == PassesMesh }) {
			return true
		}
	}
	return false
}

// forGateways says whether it is for any Gateway object.
func (v *VirtualService) forGateways() bool {
	return slices.ContainsFunc(v.Gateways, func(g string) bool { return g != route.Mesh })
}

// touchServed marks a Gateway, and the names that others have where it serves hosts: of which of them they are may change.
func (b *batch) touchServed(g *Gateway) {
	b.next.opened, b.changed.Gateways = &openedServers{}, true
	b.changed.Passing = b.changed.Passing || b.next.passes()
	if g == nil {
		return
	}
	b.touchServers(g.Key, g.Servers, g.refs())
	for _, set := range g.Sets {
		b.touchServers(set.key(), set.servers, refsOf(set.servers))
	}
}

// touchServers is that of some servers, which are written in one object.
func (b *batch) touchServers(by config.Key, servers []GatewayServer, refs []string) {
	b.askedAgain[by] = true
	for i := range servers {
		s := &servers[i]
		b.changed.Passing = b.changed.Passing || s.Serves == PassesMesh
		b.nameCovered(CatchAllName(s.Port))
		for _, f := range s.Hosts {
			b.nameCovered(f.Host)
		}
	}
	for _, ref := range refs {
		for key := range b.index.virtual.boundTo[ref] {
			b.askedAgain[key] = true
		}
	}
}

// nameCovered marks a name, and those that a pattern covers.
func (b *batch) nameCovered(pattern string) {
	if pattern == "" || pattern[0] != '*' {
		b.named[pattern] = true
		return
	}
	b.names.Walk(func(name string, _ []asker) bool {
		if Covers(pattern, name) {
			b.named[name] = true
		}
		return true
	})
}

// settleNamesAsked finds what ingress gateways are asked for by the objects that changed, and what is to be looked at again for it.
func (b *batch) settleNamesAsked() {
	for key := range b.askedAgain {
		b.judgeAtGateways(key)
		was, is := b.index.names[key], b.namesOf(key)
		for _, name := range was {
			b.nameCovered(name)
			b.putName(name, key, false)
		}
		for _, name := range is {
			b.putName(name, key, true)
		}
		for _, name := range is {
			b.nameCovered(name)
		}
		if delete(b.index.names, key); len(is) > 0 {
			b.index.names[key] = is
		}
	}
	b.changed.Names = slices.Sorted(maps.Keys(b.named))
}

func (b *batch) putName(name string, key config.Key, there bool) {
	old, _ := b.names.Get(name)
	list := slices.DeleteFunc(slices.Clone(old), func(a asker) bool { return a.by == key })
	if there {
		list = append(list, asker{key, b.index.virtual.made[key]})
		slices.SortFunc(list, func(x, y asker) int { return x.by.Compare(y.by) })
	}
	if len(list) == 0 {
		b.names.Delete(name)
	} else {
		b.names.Put(name, list)
	}
}

// namesOf is what ingress gateways are asked for by an object: of a VirtualService, where its hosts and those of Gateways that it is for
// meet; of a Gateway, the hosts whose requests it redirects.
func (b *batch) namesOf(key config.Key) []string {
	found := map[string]bool{}
	for _, s := range b.serversIn(key) {
		for _, f := range s.Hosts {
			if s.Redirect || s.Alone {
				found[f.Host] = true
			}
		}
	}
	v := b.index.virtual.made[key]
	if v == nil {
		return slices.Sorted(maps.Keys(found))
	}
	for _, at := range v.Gateways {
		if b.next.AtGateway(v, at) == nil {
			continue
		}
		for _, s := range b.serversOf(at) {
			if s.Serves == PassesMesh {
				continue
			}
			for _, host := range v.Hosts {
				for _, n := range letsOf(s.Hosts, v.Key.Namespace, host) {
					if s.Serves.Nameless() {
						n = CatchAllName(s.Port)
					}
					found[n] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
