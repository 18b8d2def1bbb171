package registry

import (
	"iter"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// setServers are the servers of one ListenerSet of a Gateway. Where its listeners are as they were, it is the same value: what follows from one set costs
// itself, however many there are.
type setServers struct {
	of      *gatewayapi.SetListeners
	servers []GatewayServer
}

func (s *setServers) key() config.Key { return s.of.Set.Key }

// all goes through the servers of a Gateway: its own, and then those of its ListenerSets.
func (g *Gateway) all() iter.Seq2[*GatewayServer, int] {
	return func(yield func(*GatewayServer, int) bool) {
		n := 0
		for i := range g.Servers {
			if !yield(&g.Servers[i], n) {
				return
			}
			n++
		}
		for _, set := range g.Sets {
			for i := range set.servers {
				if !yield(&set.servers[i], n) {
					return
				}
				n++
			}
		}
	}
}

// count is how many there are.
func (g *Gateway) count() int {
	n := len(g.Servers)
	for _, set := range g.Sets {
		n += len(set.servers)
	}
	return n
}

// makeSets makes the servers of a Gateway's ListenerSets, of those that are as they were before by what was made then.
func (g *Gateway) makeSets(was *Gateway) {
	var before []*setServers
	if was != nil {
		before = was.Sets
	}
	g.Sets = make([]*setServers, 0, len(g.listeners.Sets))
	for _, set := range g.listeners.Sets {
		for len(before) > 0 && gatewayapi.Older(before[0].of.Set, set.Set) < 0 {
			before = before[1:]
		}
		if len(before) > 0 && before[0].of == set {
			g.Sets = append(g.Sets, before[0])
			continue
		}
		made := &setServers{of: set, servers: make([]GatewayServer, 0, len(set.List))}
		for i := range set.List {
			made.servers = append(made.servers, fromKubeListener(&set.List[i]))
		}
		g.Sets = append(g.Sets, made)
	}
}

// differentSets are the ListenerSets of two states of a Gateway that are not in both as they are.
func differentSets(was, is *Gateway) (gone, come []*setServers) {
	var before, now []*setServers
	if was != nil {
		before = was.Sets
	}
	if is != nil {
		now = is.Sets
	}
	for len(before) > 0 || len(now) > 0 {
		switch {
		case len(before) > 0 && len(now) > 0 && before[0] == now[0]:
			before, now = before[1:], now[1:]
		case len(now) == 0 || len(before) > 0 && gatewayapi.Older(before[0].of.Set, now[0].of.Set) <= 0:
			gone, before = append(gone, before[0]), before[1:]
		default:
			come, now = append(come, now[0]), now[1:]
		}
	}
	return gone, come
}

// setListenerSet takes one in, or out: the Gateways that it is or was for look at it again, and its routes are made again.
func (b *batch) setListenerSet(was, is *config.Object) {
	for _, o := range [...]*config.Object{was, is} {
		if o == nil {
			continue
		}
		b.noteUses(o, o == is)
		maps.Copy(b.remade, b.index.gatewayAPI.parents[o.Key])
		parent, of := gatewayapi.SetParent(o)
		if !of {
			continue
		}
		b.reset[parent] = true
		list := b.ownSets(parent)
		if at, there := slices.BinarySearchFunc(list, o, gatewayapi.Older); there {
			list = slices.Delete(list, at, at+1)
		}
		if o == is {
			at, _ := slices.BinarySearchFunc(list, o, gatewayapi.Older)
			list = slices.Insert(list, at, o)
		}
		if b.next.sets[parent] = list; len(list) == 0 {
			delete(b.next.sets, parent)
		}
	}
}

// ownSets is the list of a Gateway's ListenerSets that only this batch has.
func (b *batch) ownSets(parent config.Key) []*config.Object {
	if len(b.setsCopied) == 0 {
		b.next.sets = maps.Clone(b.next.sets)
		if b.next.sets == nil {
			b.next.sets = map[config.Key][]*config.Object{}
		}
	}
	if !b.setsCopied[parent] {
		b.setsCopied[parent] = true
		b.next.sets[parent] = slices.Clone(b.next.sets[parent])
	}
	return b.next.sets[parent]
}

// remakeParents has Gateways look at their ListenerSets again of which something may be otherwise.
func (b *batch) remakeParents() {
	for key := range b.remade {
		if key.Kind != config.KindListenerSet {
			continue
		}
		delete(b.remade, key)
		b.retold[key], b.reread[key] = true, true
		if o := b.objects.Get(key); o != nil {
			if parent, of := gatewayapi.SetParent(o); of {
				b.reset[parent] = true
			}
		}
	}
}

// remakeGateways makes Gateways again, and has the routes made again that are for what is otherwise.
func (b *batch) remakeGateways(w world) {
	for key := range b.reset {
		if b.next.gateways[key] == nil { // nothing of it is there to go on with
			b.remade[key] = true
		}
	}
	whole := map[config.Key]bool{}
	for key := range b.remade {
		if key.Kind == config.KindKubeGateway {
			whole[key] = true
		}
	}
	for key := range whole {
		maps.Copy(b.remade, b.index.gatewayAPI.parents[key])
		for _, set := range b.next.sets[key] {
			b.retold[set.Key] = true
			maps.Copy(b.remade, b.index.gatewayAPI.parents[set.Key])
		}
	}
	if b.next.gateways = maps.Clone(b.next.gateways); b.next.gateways == nil {
		b.next.gateways = map[config.Key]*Gateway{}
	}
	for _, key := range slices.SortedFunc(maps.Keys(whole), config.Key.Compare) {
		was, is := b.next.gateways[key], b.fromKubeGateway(w, key, nil)
		b.putGateway(key, is)
		b.putSets(differentSets(was, is))
	}
	for _, key := range slices.SortedFunc(maps.Keys(b.reset), config.Key.Compare) {
		if b.retold[key] = true; whole[key] {
			continue
		}
		was := b.next.gateways[key]
		is := b.fromKubeGateway(w, key, was)
		b.next.gateways[key] = is
		gone, come := differentSets(was, is)
		if len(gone)+len(come) > 0 {
			b.next.opened, b.changed.Gateways = &openedServers{}, true
		}
		b.putSets(gone, come)
		for _, set := range slices.Concat(gone, come) {
			b.touchServers(set.key(), set.servers, refsOf(set.servers))
			b.touchBoundTo(refsOf(set.servers))
			b.retold[set.key()] = true
			maps.Copy(b.remade, b.index.gatewayAPI.parents[set.key()])
		}
	}
}

// putSets replaces the servers of ListenerSets.
func (b *batch) putSets(gone, come []*setServers) {
	for _, set := range gone {
		b.setServers.Delete(set.key().String())
		b.askedAgain[set.key()] = true
	}
	for _, set := range come {
		b.setServers.Put(set.key().String(), set)
		b.askedAgain[set.key()] = true
	}
}

// serversIn are those that are written in a Gateway, or a ListenerSet.
func (b *batch) serversIn(key config.Key) []GatewayServer {
	if key.Kind == config.KindListenerSet {
		if set, counts := b.setServers.Get(key.String()); counts {
			return set.servers
		}
		return nil
	}
	if g := b.next.gateways[key]; g != nil {
		return g.Servers
	}
	return nil
}
