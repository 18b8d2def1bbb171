package translate

import (
	"iter"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Of what is registered a proxy that fetches on use is sent little: rows of a sidecar by name, clusters of a gateway to its agent. So views of such classes keep
// of each host's rows, names and clusters nothing but their compressed bytes (part.Pack), find them by the host that their names say, and read them when somebody
// asks. What many ask for stays read (opened). See docs/adr/0094-rows-are-read-when-they-are-asked-for.md.

// packed says of each type whether a view has those of hosts in their shares alone.
type packed [resource.Count]bool

// packing is what a Translator needs to make such views.
type packing struct {
	packer resource.Packer                  // of what is made for all hosts at once, or in one change
	recent *lru.Cache[string, []remembered] // by host: of what was made of late
	opened *opened
	same   map[usesKey]*part.Uses
	many   bool        // what is made now is of many hosts
	made   int         // how many parts there are of them
	room   []part.Part // for these
	// passing says that they are more than are remembered, one after the other: none of them would still be when the next class begins with the first.
	passing bool
	whole   bool // nothing is packed: for tests
}

// opened are the resources of parts that were asked for of late.
type opened = lru.Cache[*part.Part, []*resource.Resource]

const (
	// keptRecent is of how many hosts it is remembered what they became: as many as change at once, so that classes which see the same of a host share it.
	keptRecent = 8 << 10
	// keptOpened is of how many hosts the resources are kept as they were read: some KiB each.
	keptOpened = 4 << 10
	// roomFor is for how many parts room is made at once.
	roomFor = 128
	// keptUses is how many different Uses are known again.
	keptUses = 1 << 10
)

func newPacking() packing {
	return packing{recent: newLRU[string, []remembered](keptRecent), opened: newLRU[*part.Part, []*resource.Resource](keptOpened), same: map[usesKey]*part.Uses{}}
}

func newLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // the size is constant
	}
	return c
}

// packs says what views of a class pack.
func (p *packing) packs(c Class) (types packed) {
	switch {
	case c.Inline || p.whole: // tables list hosts
	case c.Kind == Sidecar && c.Named:
		types[resource.VirtualHost], types[resource.Name] = true, true
	case (c.Kind == Gateway || c.Kind == Forward) && c.OnDemand:
		types[resource.VirtualHost], types[resource.OnDemandCluster] = true, true
	}
	return types
}

// hostOf is in whose share a resource is, if it is packed.
func (c Class) hostOf(t resource.Type, name string) string {
	switch t {
	case resource.VirtualHost:
		_, host, _ := strings.Cut(name, "/")
		if port := strings.LastIndexByte(host, ':'); port >= 0 && c.Kind != Sidecar {
			return host[:port]
		}
		return host
	case resource.OnDemandCluster:
		return wire.HostOf(name)
	default:
		return name
	}
}

// share makes, or remembers, a host's share of the view that is being made.
func (e *edit) share(s *registry.Snapshot, t *Translator, host string) *part.Part {
	old, _ := e.hosts.Get(host)
	return t.share(s, e.next.Class, host, old)
}

// share makes, or remembers, a host's share of a class's view; the old one, where it would be the same.
func (t *Translator) share(s *registry.Snapshot, c Class, host string, old *part.Part) *part.Part {
	types := t.packs(c)
	if types == (packed{}) {
		return t.host(s, c, host)
	}
	in := inputsOf(s, c, host)
	if in == nil {
		return nil
	}
	set := s.EndpointSet(host)
	known, _ := t.recent.Get(host)
	for i := range known {
		if r := &known[i]; r.set == set && same(r.from, in) {
			return r.part
		}
	}
	p := peopled(in, in.Part(), set)
	if old.Is(p) {
		p = old
	} else {
		p = p.Pack(host, part.Packing{
			Packs: func(r *resource.Resource) bool { return types[r.Type] && c.hostOf(r.Type, r.Name) == host },
			Keep:  t.packer.Keep, Same: t.sameUses, Found: c.Named, New: t.newPart,
		})
	}
	if len(known) >= mostRemembered {
		known = known[1:]
	}
	if !t.passing {
		t.recent.Add(host, append(slices.Clip(known), remembered{from: in, set: set, part: p}))
	}
	return p
}

// ofMany says that what is made until the function is called that it gives is of many hosts.
func (p *packing) ofMany() (done func()) {
	if p.many {
		return func() {}
	}
	p.many, p.made = true, 0
	return func() { p.many, p.room = false, nil }
}

// ForgetRecent forgets what is remembered to be quicker: it lies between what memory could be given back around.
func (t *Translator) ForgetRecent() {
	t.recent.Purge()
	t.opened.Purge()
}

// newPart makes room for a part. Those of many hosts lie together, and not each among what else was made for it and is garbage by then, around which memory could
// not be given back. Where there are few, or what is made of one host later, each lies by itself: a room lasts as long as any part in it.
func (p *packing) newPart() *part.Part {
	if p.made++; !p.many || p.made <= roomFor {
		return &part.Part{}
	}
	if len(p.room) == 0 {
		p.room = make([]part.Part, roomFor)
	}
	out := &p.room[0]
	p.room = p.room[1:]
	return out
}

// usesKey is what those Uses are known again by that many hosts have.
type usesKey struct {
	ports    [4]part.PortUse
	gateways [2]part.GatewayRef
}

// sameUses gives of equal ones one, mostly.
func (p *packing) sameUses(u *part.Uses) *part.Uses {
	key := usesKey{}
	if len(u.Ports) > len(key.ports) || len(u.Gateways) > len(key.gateways) || len(u.Ranges)+len(u.Secrets)+len(u.Fronts)+len(u.Leads) > 0 {
		return u
	}
	copy(key.ports[:], u.Ports)
	copy(key.gateways[:], u.Gateways)
	known, ok := p.same[key]
	if !ok || len(known.Ports) != len(u.Ports) || len(known.Gateways) != len(u.Gateways) {
		if len(p.same) >= keptUses {
			clear(p.same)
		}
		known = &part.Uses{Ports: slices.Clip(u.Ports), Gateways: slices.Clip(u.Gateways)}
		p.same[key] = known
	}
	return known
}

// repack notes what differs in what is packed of a host's old share and its new one.
func (e *edit) repack(old, now *part.Part) {
	if !e.new {
		unlikePacked(old, now, e.changes)
	}
}

// unlikePacked calls f with what differs in what is packed of two shares, or is in one of them alone.
func unlikePacked(old, now *part.Part, f func(resource.Ref)) {
	was := map[resource.Ref]string{}
	old.Packed().Walk(func(t resource.Type, name, version []byte) bool {
		was[resource.Ref{Type: t, Name: string(name)}] = string(version)
		return true
	})
	now.Packed().Walk(func(t resource.Type, name, version []byte) bool {
		ref := resource.Ref{Type: t, Name: string(name)}
		if had, ok := was[ref]; !ok || had != string(version) {
			f(ref)
		}
		delete(was, ref)
		return true
	})
	for ref := range was {
		f(ref)
	}
}

// forget lets go of what was needed while the view was made from nothing.
func (v *View) forget() *View {
	for host := range v.hosts.Own() {
		p, _ := v.hosts.Get(host)
		p.Forget(host)
	}
	return v
}

// forgetBelow lets go of what was needed of the view below, too.
func (e *edit) forgetBelow() {
	for host, old := range e.moved {
		old.Forget(host)
	}
}

// unpacked finds a resource in a host's share.
func (v *View) unpacked(t resource.Type, name string) (*resource.Resource, bool) {
	p, _ := v.hosts.Get(v.Class.hostOf(t, name))
	switch {
	case p.Packed().Empty():
		return nil, false
	case t != resource.VirtualHost || !v.Class.Named: // not asked for one by one, but with all others
		return p.Packed().Find(t, name)
	}
	list, ok := v.opened.Get(p)
	if !ok {
		list = p.Packed().Copy()
		v.opened.Add(p, list)
	}
	i := slices.IndexFunc(list, func(r *resource.Resource) bool { return r.Type == t && r.Name == name })
	if i < 0 {
		return nil, false
	}
	return list[i], true
}

func (v *View) countPacked(t resource.Type) (n int) {
	if !v.packs[t] {
		return 0
	}
	v.hosts.Walk(func(_ string, p *part.Part) bool {
		p.Packed().Walk(func(of resource.Type, _, _ []byte) bool {
			if of == t {
				n++
			}
			return true
		})
		return true
	})
	return n
}

// walkPacked is WalkPrefix: all of them are read for it, which is for those who are sent all.
func (v *View) walkPacked(t resource.Type, prefix string, f func(*resource.Resource) bool) {
	var list []*resource.Resource
	v.resources[t].WalkPrefix(prefix, func(_ string, r *resource.Resource) bool { list = append(list, r); return true })
	v.hosts.Walk(func(_ string, p *part.Part) bool {
		for _, r := range p.Packed().Of(t) {
			if strings.HasPrefix(r.Name, prefix) {
				list = append(list, r)
			}
		}
		return true
	})
	slices.SortFunc(list, func(a, b *resource.Resource) int { return strings.Compare(a.Name, b.Name) })
	for _, r := range list {
		if !f(r) {
			return
		}
	}
}

// names are those of all resources of a type, in order.
func (v *View) names(t resource.Type) iter.Seq[string] {
	return func(yield func(string) bool) {
		v.Walk(t, func(r *resource.Resource) bool { return yield(r.Name) })
	}
}

// ownPacked is Own.
func (v *View) ownPacked(t resource.Type) iter.Seq[string] {
	names := slices.Collect(v.resources[t].Own())
	note := func(ref resource.Ref) {
		if ref.Type == t {
			names = append(names, ref.Name)
		}
	}
	under, over := v.hosts.Under()
	for host := range v.hosts.Own() {
		var below *part.Part
		if over {
			below, _ = under.Get(host)
		}
		own, _ := v.hosts.Get(host)
		unlikePacked(below, own, note)
	}
	slices.Sort(names)
	return slices.Values(slices.Compact(names))
}
