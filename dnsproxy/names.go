package dnsproxy

import (
	"bytes"
	"maps"
	"slices"
)

// buckets is into how many maps the names are spread: a change copies the maps that it touches, and no others.
const buckets = 256

// names is one immutable state of the table. Keys are lower-case names in wire format. Plain maps instead of a
// persistent tree: a third of the memory, and a lookup that does not allocate.
type names struct {
	hosts  [buckets]map[string]*line   // by host
	claims [buckets]map[string][]*line // by alias or reverse name, in order of the lines' hosts: the first answers
	size   int
}

// bucket spreads wire names (FNV-1a). Who can choose the names is trusted.
func bucket[T string | []byte](key T) uint8 {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return uint8(h ^ h>>8 ^ h>>16 ^ h>>24)
}

func (n *names) host(wire []byte) *line { return n.hosts[bucket(wire)][string(wire)] }

// claimed returns the line of the first host in order that has the alias or the reverse name.
func (n *names) claimed(wire []byte) *line {
	if lines := n.claims[bucket(wire)][string(wire)]; len(lines) > 0 {
		return lines[0]
	}
	return nil
}

// edit is a change in the making: a copy of a state, and what of it is its own already.
type edit struct {
	names
	ownHosts, ownClaims [buckets]bool
	ownLines            map[string]bool
}

func (n *names) edit() *edit { return &edit{names: *n, ownLines: map[string]bool{}} }

func (e *edit) add(l *line) {
	e.drop(l.host)
	hosts := own(&e.hosts, &e.ownHosts, bucket(l.host))
	hosts[string(l.host)] = l
	e.size++
	for _, claim := range l.claimed() {
		claims := own(&e.claims, &e.ownClaims, bucket(claim))
		lines := e.own(claims, claim)
		at, found := slices.BinarySearchFunc(lines, l.host, byHost)
		if !found { // an alias may be listed twice
			lines = slices.Insert(lines, at, l)
		}
		claims[string(claim)] = lines
	}
}

func (e *edit) drop(host []byte) {
	old := e.host(host)
	if old == nil {
		return
	}
	delete(own(&e.hosts, &e.ownHosts, bucket(host)), string(host))
	e.size--
	for _, claim := range old.claimed() {
		claims := own(&e.claims, &e.ownClaims, bucket(claim))
		lines := e.own(claims, claim)
		if at, found := slices.BinarySearchFunc(lines, host, byHost); found {
			lines = slices.Delete(lines, at, at+1)
		}
		if claims[string(claim)] = lines; len(lines) == 0 {
			delete(claims, string(claim))
		}
	}
}

// own copies the lines of a claim unless this edit has made them.
func (e *edit) own(claims map[string][]*line, claim []byte) []*line {
	lines := claims[string(claim)]
	if !e.ownLines[string(claim)] {
		e.ownLines[string(claim)] = true
		lines = slices.Clone(lines)
	}
	return lines
}

// own copies one of the maps unless this edit has made it.
func own[V any](all *[buckets]map[string]V, owned *[buckets]bool, at uint8) map[string]V {
	if !owned[at] {
		owned[at] = true
		if all[at] = maps.Clone(all[at]); all[at] == nil {
			all[at] = map[string]V{}
		}
	}
	return all[at]
}

func byHost(l *line, host []byte) int { return bytes.Compare(l.host, host) }
