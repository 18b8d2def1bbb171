package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// seal makes the final, immutable services of a touched host; registrations that did not change after all keep
// the value they had. settleNames counts what namespaces see of it.
func (b *batch) seal(host string) {
	list, _ := b.hosts.Get(host)
	was, _ := b.snap.hosts.Get(host)
	sealed := b.final(host, list)
	same := len(was) == len(list)
	for i, s := range sealed {
		if i < len(was) && was[i].Hash == s.Hash {
			sealed[i] = was[i]
		} else {
			same = false
			sealed[i] = b.rooms.service(s)
		}
	}
	if same {
		if len(was) > 0 {
			b.hosts.Put(host, was)
		}
		if len(was) == 0 || !b.ruleTouched(host) {
			delete(b.touched, host)
		}
		return
	}
	if len(sealed) > 0 {
		sealed = b.rooms.list(sealed)
		b.hosts.Put(host, sealed)
		b.tails.Put(host, struct{}{})
	} else {
		b.tails.Delete(host)
	}
	b.sealed[host] = was
	b.countExits(was, -1)
	b.countExits(sealed, +1)
	b.noteWritten(host, was, sealed)
	b.note(host, was, sealed)
	b.noteShadowed(host)
}

// final gives the values that readers see: with made-up addresses, the ports of entries that belong together, and
// the hash over all of it.
func (b *batch) final(host string, list []*Service) []*Service {
	madeUp := b.madeUp.all.lookup(host)
	out := make([]*Service, len(list))
	for i, s := range list {
		fresh := s
		if s.Hash != 0 || !s.External { // readers have it, or leader does
			fresh = new(*s)
		}
		fresh.Ports = ownPorts(s.Ports)
		fresh.MadeUp, fresh.Hash = madeUp, 0
		if len(fresh.Addresses) > 0 || !fresh.entry() && !fresh.Elsewhere {
			fresh.MadeUp = 0
		}
		out[i] = fresh
	}
	joinPorts(out)
	for _, s := range out {
		s.Traits = b.sameTraits(s.Traits)
		s.Hash = b.hashOf(s)
		s.Ports = b.samePorts(s.Ports)
	}
	return out
}

// hashOf covers every exported field, so that none can be forgotten. Endpoints that hosts share are gone through once.
func (b *batch) hashOf(s *Service) uint64 {
	bare := *s
	bare.Endpoints = nil
	return xxhash.Sum64(strconv.AppendUint(marshal(bare), b.hashOfEndpoints(s.Endpoints), 16))
}

func (b *batch) hashOfEndpoints(list []Endpoint) uint64 {
	if len(list) == 0 {
		return 0
	}
	h, known := b.hashed[&list[0]]
	if !known {
		h = xxhash.Sum64(marshal(list))
		b.hashed[&list[0]] = h
	}
	return h
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("registry: a service does not marshal: %v", err)) // no field of it can fail
	}
	return text
}

// countExits notes the gateways that services leave by. They are few, but the counts move with every host: the map
// is copied once a batch.
func (b *batch) countExits(list []*Service, by int) {
	for _, s := range list {
		if s.Exit.IsZero() || s.Borrowed {
			continue
		}
		if b.exitWas == nil {
			b.next.exits, b.next.shared, b.exitWas = maps.Clone(b.next.exits), maps.Clone(b.next.shared), map[Ref]bool{}
		}
		if _, noted := b.exitWas[s.Exit]; !noted {
			b.exitWas[s.Exit] = b.next.exits[s.Exit] > 0
		}
		if b.next.exits[s.Exit] += by; b.next.exits[s.Exit] == 0 {
			delete(b.next.exits, s.Exit)
		}
		if !s.RootExit {
			continue
		}
		if b.next.shared[s.Exit] += by; b.next.shared[s.Exit] == 0 {
			delete(b.next.shared, s.Exit)
		}
	}
}

// countView adds a reason, or takes one away, for a namespace to have a view of its own, which is in objects of somebody's. With more it is another
// one than that something has a shorter name there.
func (b *batch) countView(ns, whose string, by int, more bool) {
	if !b.specialCopied {
		b.next.special, b.next.different, b.specialCopied = maps.Clone(b.next.special), maps.Clone(b.next.different), true
	}
	count(b.next.special, ns, by, &b.changed.Views)
	if more {
		count(b.next.different, ns, by, &b.changed.Views)
		b.countReason(ns, whose, by)
	}
}

// countSecrets adds a rule, or takes one away, that asks clients in a namespace for certificates.
func (b *batch) countSecrets(ns string, by int) {
	if !b.secretsCopied {
		b.next.asksSecrets, b.secretsCopied = maps.Clone(b.next.asksSecrets), true
	}
	count(b.next.asksSecrets, ns, by, &b.changed.Views)
}

// count adds to a count, and says when it begins or ends.
func count(counts map[string]int, ns string, by int, turned *bool) {
	was := counts[ns]
	if counts[ns] += by; counts[ns] == 0 {
		delete(counts, ns)
	}
	*turned = *turned || was == 0 || was+by == 0
}

// portsKey is what a list of ports is known again by; longer ones are not.
type portsKey [4]Port

// keptPorts is how many lists of ports are known again.
const keptPorts = 1 << 10

// samePorts gives of equal lists of ports one, mostly: of many thousand hosts most have the same, which are a third of what is kept of such a host.
func (r *Registry) samePorts(ports []Port) []Port {
	var key portsKey
	if len(ports) == 0 || len(ports) > len(key) {
		return ports
	}
	copy(key[:], ports)
	known, ok := r.ports[key]
	if !ok || len(known) != len(ports) {
		if len(r.ports) >= keptPorts {
			clear(r.ports)
		}
		known = slices.Clip(slices.Clone(ports))
		r.ports[key] = known
	}
	return known
}
