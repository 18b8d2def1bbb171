package translate

import (
	"iter"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/locality"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/part"
)

// Workloads of many namespaces get nearly what everybody gets: they see a few hosts of their own, or at another address. Their
// views are kept as what differs from everybody's, and cost that: in memory, when they are made, and when something changes.

// Common is the class that a class is like, but for what it lets in, and whom it asks about that; or else, of sidecars, but for where it is; or else, of
// nodes, but for what namespaces have tables of their own; or else, of
// sidecars, but for what its namespace, its Sidecar object and its DestinationRules make of it; the class itself where there is none.
func (c Class) Common() Class {
	switch {
	case c.isOverlay():
		c.Inbound, c.Asks = "", ""
		if c.Kind == Sidecar {
			c.Recorded = ""
		}
	case c.Own != "":
		c.Own = ""
	case c.Kind == Sidecar && c.Client != locality.Client{}:
		c.Client = locality.Client{}
	case c.Kind == Sidecar:
		c.View, c.Scope, c.Selected = "", config.Key{}, ""
	}
	return c
}

// BuildOver is Build over the view of the class's Common, of the same snapshot. Where most of it would be other than there, it stands
// alone.
func (t *Translator) BuildOver(common *View, s *registry.Snapshot, c Class) *View {
	if c.isOverlay() {
		return buildOverlay(common, s, c)
	}
	if c.Own != "" {
		return t.buildOwn(common, s, c)
	}
	type share struct {
		host string
		part *part.Part
	}
	var differ []share
	defer t.ofMany()()
	alike := c.alike(s)
	for host, list := range s.Hosts() {
		if alike(host, list) {
			continue
		}
		theirs, _ := common.hosts.Get(host)
		if p := t.share(s, c, host, theirs); p != theirs {
			differ = append(differ, share{host, p})
		}
	}
	defer t.packer.Done()
	if len(differ) > s.Len()/2 {
		return t.Build(s, c)
	}
	e := newEdit(common.over(c))
	e.new, e.under = true, common
	for _, d := range differ {
		e.setHost(d.host, d.part)
		t.packer.Add(d.part.Loose())
	}
	e.setBase(s, t)
	defer e.forgetBelow()
	return e.done().forget()
}

// over is a view of a class that is the same as this one.
func (v *View) over(c Class) *View {
	out := &View{Class: c, hosts: v.hosts.Over(), packs: v.packs, opened: v.opened, buckets: v.buckets.Over(), sum: v.sum, uses: v.uses, base: v.base, from: v.from}
	for i := range v.resources {
		out.resources[i] = v.resources[i].Over()
	}
	return out
}

// alike says of hosts whether they are to a class of sidecars what they are to its Common, without making anything. It may say no where they are.
func (c Class) alike(s *registry.Snapshot) func(host string, list []*registry.Service) bool {
	who := c.sidecar(s)
	if c.Client != (locality.Client{}) {
		return func(host string, list []*registry.Service) bool { return !who.StandsApart(host, list) }
	}
	return who.SeesAsEverybody
}

// Alone says that the view is not kept as what differs from another one.
func (v *View) Alone() bool { return v.hosts.Alone() }

// Own goes through the names of the resources of a type in which it differs from that one, in order; also of those that are not there.
func (v *View) Own(t resource.Type) iter.Seq[string] {
	switch {
	case t == resource.Digest:
		return v.ownDigest()
	case v.packs[t]:
		return v.ownPacked(t)
	}
	return v.resources[t].Own()
}

// UpdateOver is Update for a view over one that was updated already, with the references of what changed in that one.
func (t *Translator) UpdateOver(v, common *View, differ []resource.Ref, s *registry.Snapshot, changed registry.Changed) (*View, []resource.Ref) {
	if v.Class.isOverlay() {
		return inward(v.following(common, differ), s).commit()
	}
	if v.Class.Own != "" {
		return t.updateOwn(v, common, differ, s, changed)
	}
	if v.Alone() { // most of it was other than there when it was made
		return t.Update(v, s, changed)
	}
	if affects(changed, v.Class) {
		next := t.BuildOver(common, s, v.Class)
		return next, next.unlike(v, differ)
	}
	e := newEdit(v)
	e.hosts = v.hosts.EditOver(common.hosts, slices.Concat(changed.Hosts, changed.Endpoints))
	e.buckets, e.under, e.differ = v.buckets.EditOnto(common.buckets), common, differ
	var names [resource.Count][]string
	for _, ref := range differ {
		names[ref.Type] = append(names[ref.Type], ref.Name)
	}
	for i := range e.sets {
		e.sets[i] = *v.resources[i].EditOver(common.resources[i], names[i])
	}
	return t.move(e, s, changed)
}

// unlike gives what differs from the view before, in sending order: of what differs in the views under them, and of their own. One
// that stands alone now has lost what it had from below, too.
func (v *View) unlike(was *View, under []resource.Ref) []resource.Ref {
	changed := map[resource.Ref]bool{}
	note := func(t resource.Type, name string) {
		a, _ := v.Get(t, name)
		if b, _ := was.Get(t, name); a != b && (a == nil || b == nil || a.Version != b.Version) {
			changed[resource.Ref{Type: t, Name: name}] = true
		}
	}
	for _, ref := range under {
		note(ref.Type, ref.Name)
	}
	for _, t := range resource.Types() {
		for name := range v.Own(t) {
			note(t, name)
		}
		gone := was.Own(t)
		if v.Alone() {
			gone = was.names(t)
		}
		for name := range gone {
			note(t, name)
		}
	}
	return v.inOrder(changed)
}
