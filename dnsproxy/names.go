package dnsproxy

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// buckets is into how many maps the names are spread: a change copies the maps that it touches, and no others.
const buckets = 256

// names is one immutable state of the table. Keys are lower-case names in wire format, and addresses. Plain maps instead of a
// persistent tree: a third of the memory, and a lookup that does not allocate. Each pod has all names: a line has its host's bytes
// from its key, and an address that one line has, which most are, has no list.
type names struct {
	hosts   [buckets]map[string]*line
	aliases [buckets]map[string][]*line // in order of the lines' hosts: the first answers
	addrs   [buckets]map[address]*line  // the first, in the same order
	shared  map[address][]*line         // all lines of an address that has several, in that order
	size    int
}

// address is one of either family, as netip.Addr.As16 says; netip.Addr itself takes half as much again.
type address [16]byte

// bucket spreads keys (FNV-1a). Who can choose them is trusted.
func bucket[T string | []byte](key T) uint8 {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return uint8(h ^ h>>8 ^ h>>16 ^ h>>24)
}

func (n *names) host(wire []byte) *line { return n.hosts[bucket(wire)][string(wire)] }

// alias returns the line of the first host in order that has the alias.
func (n *names) alias(wire []byte) *line {
	if lines := n.aliases[bucket(wire)][string(wire)]; len(lines) > 0 {
		return lines[0]
	}
	return nil
}

// holder returns the line of the first host in order that has the address, and is no wildcard. An IPv4 address in IPv6's form is nobody's.
func (n *names) holder(addr netip.Addr) *line {
	if addr.Is4In6() {
		return nil
	}
	key := address(addr.As16())
	return n.addrs[bucket(key[:])][key]
}

// edit is a change in the making: a copy of a state, and what of it is its own already.
type edit struct {
	names
	ownHosts, ownAliases, ownAddrs [buckets]bool
	ownShared                      bool
	ownAliasLines                  map[string]bool
	ownSharedLines                 map[address]bool
}

func (n *names) edit() *edit {
	return &edit{names: *n, ownAliasLines: map[string]bool{}, ownSharedLines: map[address]bool{}}
}

func (e *edit) add(l *line) {
	e.drop(l.host)
	own(&e.hosts, &e.ownHosts, bucket(l.host))[l.host] = l
	e.size++
	for _, alias := range l.aliases {
		aliases := own(&e.aliases, &e.ownAliases, bucket(alias))
		aliases[alias] = with(ownLines(aliases, e.ownAliasLines, alias), l)
	}
	for key := range l.holds {
		e.hold(key, l)
	}
}

func (e *edit) drop(host string) {
	at := bucket(host)
	old := e.hosts[at][host]
	if old == nil {
		return
	}
	delete(own(&e.hosts, &e.ownHosts, at), host)
	e.size--
	for _, alias := range old.aliases {
		aliases := own(&e.aliases, &e.ownAliases, bucket(alias))
		if aliases[alias] = without(ownLines(aliases, e.ownAliasLines, alias), host); len(aliases[alias]) == 0 {
			delete(aliases, alias)
		}
	}
	for key := range old.holds {
		e.letGo(key, host)
	}
}

// hold says that l has an address, which others may have, too.
func (e *edit) hold(key address, l *line) {
	addrs := own(&e.addrs, &e.ownAddrs, bucket(key[:]))
	first := addrs[key]
	if first == nil {
		addrs[key] = l
		return
	}
	lines := e.sharedLines(key)
	if len(lines) == 0 {
		lines = []*line{first}
	}
	lines = with(lines, l)
	e.shared[key], addrs[key] = lines, lines[0]
}

// letGo says that the line of a host has an address no longer.
func (e *edit) letGo(key address, host string) {
	addrs := own(&e.addrs, &e.ownAddrs, bucket(key[:]))
	if len(e.shared[key]) == 0 {
		delete(addrs, key)
		return
	}
	lines := without(e.sharedLines(key), host)
	if e.shared[key], addrs[key] = lines, lines[0]; len(lines) == 1 {
		delete(e.shared, key)
	}
}

// sharedLines are the lines of an address that has several, to be changed.
func (e *edit) sharedLines(key address) []*line {
	if !e.ownShared {
		e.ownShared = true
		if e.shared = maps.Clone(e.shared); e.shared == nil {
			e.shared = map[address][]*line{}
		}
	}
	return ownLines(e.shared, e.ownSharedLines, key)
}

// with is lines with l in its place, unless it is there.
func with(lines []*line, l *line) []*line {
	at, found := slices.BinarySearchFunc(lines, l.host, byHost)
	if found { // an alias may be listed twice
		return lines
	}
	return slices.Insert(lines, at, l)
}

func without(lines []*line, host string) []*line {
	if at, found := slices.BinarySearchFunc(lines, host, byHost); found {
		return slices.Delete(lines, at, at+1)
	}
	return lines
}

// ownLines copies the lines of a key unless this edit has made them.
func ownLines[K comparable](all map[K][]*line, owned map[K]bool, key K) []*line {
	lines := all[key]
	if !owned[key] {
		owned[key] = true
		lines = slices.Clone(lines)
	}
	return lines
}

// own copies one of the maps unless this edit has made it.
func own[K comparable, V any](all *[buckets]map[K]V, owned *[buckets]bool, at uint8) map[K]V {
	if !owned[at] {
		owned[at] = true
		if all[at] = maps.Clone(all[at]); all[at] == nil {
			all[at] = map[K]V{}
		}
	}
	return all[at]
}

func byHost(l *line, host string) int { return strings.Compare(l.host, host) }
