package translate

import (
	"cmp"
	"encoding/binary"
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

// bucket is what is in one of the digest's, in order.
type bucket struct {
	keys []bucketKey
	mark uint64 // digest.Mark
}

type bucketKey struct {
	value uint64
	host  string // whose part has the row
}

func sameBucket(a, b *bucket) bool {
	return a == b || a != nil && b != nil && slices.Equal(a.keys, b.keys)
}

func emptyBuckets() ordered.Layer[*bucket] { return ordered.NewLayer(sameBucket) }

// of a bucket that is not there.
func (b *bucket) marked() uint64 {
	if b == nil {
		return 0
	}
	return b.mark
}

// foundElsewhere notes that a host's rows are found in another way than before.
func (e *edit) foundElsewhere(host string, old, now *part.Part) {
	if !e.next.Class.Named {
		return
	}
	if _, again := e.moved[host]; !again {
		e.moved[host] = old
	}
	now.Found() // while its rows are not packed
}

// setDigest has the digest say what there is in the view that is being made. In a view over another one it is that one's where no host differs.
func (e *edit) setDigest() {
	if !e.next.Class.Named || e.under != nil && e.next.Class.besides() { // the latter has the hosts of the view below
		return
	}
	touched := e.touched()
	own := e.ownKeys(touched)
	for name := range touched {
		e.setBucket(name, own[name])
	}
	if body, has := e.sets[resource.Digest].Get(digest.SumName); !has || binary.BigEndian.Uint64(body.Value()) != e.sum() || touched[digest.SumName] {
		e.put(resource.SealBytes(resource.Digest, digest.SumName, digest.Sum(e.sum())))
	}
}

// touched are the buckets in which something may be other than before.
func (e *edit) touched() map[string]bool {
	names := map[string]bool{}
	for _, ref := range e.differ {
		if ref.Type == resource.Digest {
			names[ref.Name] = true
		}
	}
	for host, old := range e.moved {
		now, _ := e.hosts.Get(host)
		for _, p := range [...]*part.Part{old, now} {
			for _, k := range p.Found().Keys {
				names[digest.BucketName(k.Bucket)] = true
			}
		}
	}
	return names
}

// owns goes through the hosts that the view says something of itself: of a view that stands alone, what has changed.
func (e *edit) owns() iter.Seq[string] {
	if e.under != nil {
		return e.hosts.Own()
	}
	return func(yield func(string) bool) {
		for host := range e.moved {
			if !yield(host) {
				return
			}
		}
	}
}

func (e *edit) owned(host string) bool {
	if e.under != nil {
		return e.hosts.Says(host)
	}
	_, moved := e.moved[host]
	return moved
}

// ownKeys are those of such hosts in some buckets.
func (e *edit) ownKeys(buckets map[string]bool) map[string][]bucketKey {
	out := map[string][]bucketKey{}
	if len(buckets) == 0 {
		return out
	}
	for host := range e.owns() {
		p, _ := e.hosts.Get(host)
		for _, k := range p.Found().Keys {
			if name := digest.BucketName(k.Bucket); buckets[name] {
				out[name] = append(out[name], bucketKey{k.Value, host})
			}
		}
	}
	return out
}

// setBucket makes a bucket of what the view below, or the last one, has of hosts that are still as there, and of the others' keys.
func (e *edit) setBucket(name string, own []bucketKey) {
	if name == digest.SumName {
		return
	}
	below, now := e.buckets.Layer, &bucket{keys: own}
	if e.under != nil {
		below = e.under.buckets
	}
	was, _ := below.Get(name)
	if was != nil {
		for _, k := range was.keys {
			if !e.owned(k.host) {
				now.keys = append(now.keys, k)
			}
		}
	}
	slices.SortFunc(now.keys, func(a, b bucketKey) int { return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.host, b.host)) })
	now.keys = slices.Clip(slices.Compact(now.keys))
	body := now.encode()
	now.mark = digest.Mark(name, body)
	if e.under == nil {
		e.total ^= was.marked() ^ now.mark
	}
	if len(body) == 0 {
		e.buckets.Delete(name)
		e.drop(resource.Ref{Type: resource.Digest, Name: name})
		return
	}
	e.buckets.Put(name, now)
	e.put(resource.SealBytes(resource.Digest, name, body))
}

func (b *bucket) encode() []byte {
	values := make([]uint64, 0, len(b.keys))
	for i, k := range b.keys {
		if i == 0 || k.value != b.keys[i-1].value {
			values = append(values, k.value)
		}
	}
	return digest.Encode(values)
}

// sum is what all buckets add up to.
func (e *edit) sum() uint64 {
	if e.under == nil {
		return e.total
	}
	sum := e.under.sum
	for name := range e.buckets.Own() {
		theirs, _ := e.under.buckets.Get(name)
		now, _ := e.buckets.Get(name)
		sum ^= theirs.marked() ^ now.marked()
	}
	return sum
}

// put and drop change one resource.
func (e *edit) put(r *resource.Resource) {
	was, ok := e.sets[r.Type].Get(r.Name)
	e.sets[r.Type].Put(r.Name, r)
	if !ok || was.Version != r.Version {
		e.changed[resource.Ref{Type: r.Type, Name: r.Name}] = true
	}
}

func (e *edit) drop(ref resource.Ref) {
	if _, ok := e.sets[ref.Type].Get(ref.Name); ok {
		e.changed[ref] = true
	}
	e.sets[ref.Type].Delete(ref.Name)
}

// Row finds the row of TABLE/DOMAIN, by whatever domain of it.
func (v *View) Row(name string) (*resource.Resource, bool) {
	if r, ok := v.Get(resource.VirtualHost, name); ok || !v.Class.Named {
		return r, ok
	}
	table, domain, _ := strings.Cut(name, "/")
	key := digest.KeyOf(table, domain)
	b, ok := v.buckets.Get(digest.BucketName(key.Bucket))
	if !ok {
		return nil, false
	}
	for _, k := range b.keys {
		if k.value != key.Value {
			continue
		}
		p, _ := v.hosts.Get(k.host)
		for _, by := range p.Found().Keys {
			if by.Key == key && has(by.Row, table, domain) {
				return v.Get(resource.VirtualHost, by.Row.Name)
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
	v.hosts.Walk(func(_ string, p *part.Part) bool {
		names = append(names, below(p, table, pattern)...)
		return true
	})
	return names
}

// PatternsOver gives the names that rows of patterns would have that hide a row: Below turned around.
func (v *View) PatternsOver(row string) (patterns []string) {
	table, host, _ := strings.Cut(row, "/")
	p, _ := v.hosts.Get(host)
	for _, name := range p.Found().Names {
		for rest, more := strings.TrimPrefix(name, "*."), true; more; {
			if _, rest, more = strings.Cut(rest, "."); more {
				patterns = append(patterns, table+"/*."+rest)
			}
		}
	}
	return patterns
}

func below(p *part.Part, table, pattern string) (names []string) {
	found := p.Found()
	if !found.Below(strings.TrimPrefix(pattern, table+"/")) {
		return nil
	}
	for _, r := range p.All() {
		if r.Type == resource.VirtualHost && strings.HasPrefix(r.Name, table+"/") && r.Name != pattern {
			names = append(names, r.Name)
		}
	}
	return names
}
