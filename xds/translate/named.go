package translate

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
	"github.com/sallyport/sallyport/xds/digest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/part"
)

// Sidecars whose agents ask for rows by name (docs/adr/0080-rows-by-name.md) are told which there are by a digest: resources that are few and small, and change
// with the rows. What they are made of finds rows by what else than their names leads to them, too.

// bucket is what is in one of the digest's: of a view that stands alone all of it, and of one over another what it has itself.
type bucket struct {
	keys []bucketKey // in order; of hosts that the view says something of
	mark uint64      // digest.Mark of the whole bucket; 0 of an empty one
}

type bucketKey struct {
	value uint64
	host  string // whose part has the row
}

func compareKeys(a, b bucketKey) int {
	return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.host, b.host))
}

func emptyBuckets() ordered.Layer[*bucket] {
	return ordered.NewLayer(func(a, b *bucket) bool { return a == b })
}

// marked is 0 of a bucket that is not there.
func (b *bucket) marked() uint64 {
	if b == nil {
		return 0
	}
	return b.mark
}

// foundElsewhere notes that a host's rows are found in another way than before.
func (e *edit) foundElsewhere(host string, old *part.Part) {
	if !e.next.Class.Named {
		return
	}
	if _, again := e.moved[host]; !again {
		e.moved[host] = old
	}
}

// mostFresh is how many buckets a view keeps as they are sent, of those that have changed last: all who are sent a change ask for the same ones.
const mostFresh = 64

// setDigest has the digest say what there is in the view that is being made. In a view over another one it is that one's where no host differs.
func (e *edit) setDigest() {
	switch {
	case !e.next.Class.Named:
		return
	case e.under != nil && e.next.Class.isOverlay(): // it has the hosts of the view below
		e.total = e.under.sum
		return
	}
	own := e.ownKeys()
	for _, ref := range e.differ {
		if _, touched := own[ref.Name]; ref.Type == resource.Digest && ref.Name != digest.SumName && !touched {
			own[ref.Name] = nil
		}
	}
	e.next.fresh = nil
	if !e.new && len(own) <= mostFresh {
		e.next.fresh = make(map[string]*resource.Resource, len(own))
	}
	room := 0
	for _, keys := range own {
		room += len(keys)
	}
	if len(own) > mostFresh {
		e.room = make([]bucketKey, 0, room)
	}
	for name, keys := range own {
		e.setBucket(name, keys)
	}
	if e.total != e.next.sum {
		e.changes(resource.Ref{Type: resource.Digest, Name: digest.SumName})
	}
}

// ownKeys are, by the buckets in which something of hosts that have changed is or was, the keys of those of them that the view says something of itself.
func (e *edit) ownKeys() map[string][]bucketKey {
	own := map[string][]bucketKey{}
	touch := func(found part.Found, key func(k part.DomainKey) []bucketKey) {
		for _, k := range found.Keys {
			name := digest.BucketName(k.Bucket)
			own[name] = append(own[name], key(k)...)
		}
	}
	none := func(part.DomainKey) []bucketKey { return nil }
	nearlyAll := e.new && e.under != nil && len(e.moved) > digest.Buckets/4
	if nearlyAll { // hosts have been in nearly all buckets of the view below: looking would mean to open all that is packed there
		for name := range e.under.buckets.Keys() {
			own[name] = nil
		}
	}
	for host, old := range e.moved {
		now, _ := e.hosts.Get(host)
		says := e.hosts.Says(host)
		if !nearlyAll {
			touch(old.Found(), none)
		}
		if !nearlyAll && !says {
			touch(now.Found(), none)
		}
		if says {
			touch(now.Found(), func(k part.DomainKey) []bucketKey { return []bucketKey{{k.Value, host}} })
		}
	}
	return own
}

// setBucket makes a bucket of what it had, but for hosts that have changed, and of their keys.
func (e *edit) setBucket(name string, own []bucketKey) {
	before, _ := e.next.buckets.Get(name)
	now := &bucket{keys: own}
	if had, ok := e.buckets.Mine(name); ok {
		for _, k := range had.keys {
			if _, moved := e.moved[k.host]; !moved {
				now.keys = append(now.keys, k)
			}
		}
	}
	slices.SortFunc(now.keys, compareKeys)
	now.keys = e.keepKeys(slices.Compact(now.keys))
	below := e.below(name)
	values := make([]uint64, 0, len(now.keys)+len(below))
	for _, k := range now.keys {
		values = append(values, k.value)
	}
	for _, k := range below {
		if !e.hosts.Says(k.host) {
			values = append(values, k.value)
		}
	}
	same := len(now.keys) == 0 && len(values) == len(below)
	body := encode(values)
	now.mark = digest.Mark(name, body)
	switch {
	case e.under != nil && same:
		e.buckets.Follow(name)
	case e.under == nil && now.mark == 0:
		e.buckets.Delete(name)
	default:
		e.buckets.Put(name, now)
	}
	if before.marked() == now.marked() {
		return
	}
	e.total ^= before.marked() ^ now.marked()
	e.changes(resource.Ref{Type: resource.Digest, Name: name})
	if e.next.fresh != nil && now.mark != 0 {
		e.next.fresh[name] = resource.SealBytes(resource.Digest, name, body)
	}
}

// keepKeys makes room for keys: for those of many buckets in one place, see newPart.
func (e *edit) keepKeys(keys []bucketKey) []bucketKey {
	if begin := len(e.room); cap(e.room)-begin >= len(keys) {
		e.room = append(e.room, keys...)
		return e.room[begin:len(e.room):len(e.room)]
	}
	return slices.Clone(keys)
}

// below is what is in a bucket of the view below.
func (e *edit) below(name string) []bucketKey {
	if e.under == nil {
		return nil
	}
	return keysIn(e.under.buckets, e.under.hosts, name)
}

// keysIn are the keys in a bucket of a view: its own, and those of the view below of hosts that it says nothing of.
func keysIn(buckets ordered.Layer[*bucket], hosts ordered.Layer[*part.Part], name string) []bucketKey {
	own, ok := buckets.Mine(name)
	below, over := buckets.Under()
	if !over {
		if !ok {
			return nil
		}
		return own.keys
	}
	hostsBelow, _ := hosts.Under()
	keys := keysIn(below, hostsBelow, name)
	if !ok {
		return keys
	}
	out := slices.Clone(own.keys)
	for _, k := range keys {
		if !hosts.Says(k.host) {
			out = append(out, k)
		}
	}
	return out
}

// encode is what is sent of a bucket that has these values, which it may put in order.
func encode(values []uint64) []byte {
	slices.Sort(values)
	return digest.Encode(slices.Compact(values))
}

// digestOf makes a resource of the digest.
func (v *View) digestOf(name string) (*resource.Resource, bool) {
	if !v.Class.Named {
		return nil, false
	}
	if name == digest.SumName {
		return resource.SealBytes(resource.Digest, name, digest.Sum(v.sum)), true
	}
	if b, _ := v.buckets.Get(name); b.marked() == 0 {
		return nil, false
	}
	if r := v.fresh[name]; r != nil {
		return r, true
	}
	keys := keysIn(v.buckets, v.hosts, name)
	values := make([]uint64, 0, len(keys))
	for _, k := range keys {
		values = append(values, k.value)
	}
	return resource.SealBytes(resource.Digest, name, encode(values)), true
}

// walkDigest goes through all of it, in order.
func (v *View) walkDigest(prefix string, f func(*resource.Resource) bool) {
	if !v.Class.Named {
		return
	}
	for _, name := range append(slices.Collect(v.buckets.Keys()), digest.SumName) {
		if r, ok := v.digestOf(name); ok && strings.HasPrefix(name, prefix) && !f(r) {
			return
		}
	}
}

// countDigest is how many resources it has.
func (v *View) countDigest() (n int) {
	if !v.Class.Named {
		return 0
	}
	v.buckets.Walk(func(_ string, b *bucket) bool {
		if b.mark != 0 {
			n++
		}
		return true
	})
	return n + 1 // the sum
}

// ownDigest is Own.
func (v *View) ownDigest() iter.Seq[string] {
	return func(yield func(string) bool) {
		if !v.Class.Named {
			return
		}
		for name := range v.buckets.Own() {
			if !yield(name) {
				return
			}
		}
		yield(digest.SumName)
	}
}

// Row finds the row of TABLE/DOMAIN, by whatever domain of it.
func (v *View) Row(name string) (*resource.Resource, bool) {
	if r, ok := v.Get(resource.VirtualHost, name); ok || !v.Class.Named {
		return r, ok
	}
	table, domain, _ := strings.Cut(name, "/")
	key := digest.KeyOf(table, domain)
	for _, k := range keysIn(v.buckets, v.hosts, digest.BucketName(key.Bucket)) {
		if k.value != key.Value {
			continue
		}
		p, _ := v.hosts.Get(k.host)
		for _, by := range p.Found().Keys {
			if by.Key != key {
				continue
			}
			if row, ok := v.Get(resource.VirtualHost, by.Row); ok && has(row, table, domain) {
				return row, true
			}
		}
	}
	return nil, false
}

// has says whether a row is of that table and has that domain: different ones may have the same key.
func has(row *resource.Resource, table, domain string) (found bool) {
	if !strings.HasPrefix(row.Name, table+"/") {
		return false
	}
	digest.Domains(row.Name, row.Value(), func(d string) { found = found || d == domain })
	return found
}

// Below gives the rows that a pattern's row, TABLE/*.DOMAIN, would hide where they are missing; maybe some more of the same hosts.
func (v *View) Below(pattern string) (names []string) {
	table, _, _ := strings.Cut(pattern, "/")
	v.hosts.Walk(func(host string, p *part.Part) bool {
		if p.Below(host, strings.TrimPrefix(pattern, table+"/")) {
			names = append(names, rowsIn(p, table, pattern)...)
		}
		return true
	})
	return names
}

// PatternsOver gives the names that rows of patterns would have that hide a row: Below turned around.
func (v *View) PatternsOver(row string) (patterns []string) {
	table, host, _ := strings.Cut(row, "/")
	p, _ := v.hosts.Get(host)
	for _, name := range p.Names(host) {
		for rest, more := strings.TrimPrefix(name, "*."), true; more; {
			if _, rest, more = strings.Cut(rest, "."); more {
				patterns = append(patterns, table+"/*."+rest)
			}
		}
	}
	return patterns
}

// rowsIn are the rows of a part in a table, but for one.
func rowsIn(p *part.Part, table, but string) (names []string) {
	for _, r := range p.All() {
		if r.Type == resource.VirtualHost && strings.HasPrefix(r.Name, table+"/") && r.Name != but {
			names = append(names, r.Name)
		}
	}
	return names
}
