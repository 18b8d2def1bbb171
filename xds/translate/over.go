package translate

import (
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/part"
)

// Workloads of many namespaces get nearly what everybody gets: they see a few hosts of their own, or at another address. Their
// views are kept as what differs from everybody's, and cost that: in memory, when they are made, and when something changes.

// Common is the class that a class of sidecars is like, but for what its namespace, its Sidecar object and its DestinationRules make of
// it; the class itself where there is none.
func (c Class) Common() Class {
	if c.Kind == Sidecar {
		c.View, c.Scope, c.Selected = "", config.Key{}, ""
	}
	return c
}

// BuildOver is Build over the view of the class's Common, of the same snapshot. Where most of it would be other than there, it stands
// alone.
func (t *Translator) BuildOver(common *View, s *registry.Snapshot, c Class) *View {
	type share struct {
		host string
		part *part.Part
	}
	var differ []share
	who := c.sidecar(s)
	for host, list := range s.Hosts() {
		if who.SeesAsEverybody(host, list) {
			continue
		}
		p := t.host(s, c, host)
		if theirs, _ := common.hosts.Get(host); p != theirs {
			differ = append(differ, share{host, p})
		}
	}
	if len(differ) > s.Len()/2 {
		return t.Build(s, c)
	}
	e := newEdit(common.over(c))
	for _, d := range differ {
		e.setHost(d.host, d.part)
	}
	e.setBase(s, t)
	next, _ := e.commit()
	return next
}

// over is a view of a class that is the same as this one.
func (v *View) over(c Class) *View {
	out := &View{Class: c, hosts: v.hosts.Over(), uses: v.uses, base: v.base, from: v.from}
	for i := range v.resources {
		out.resources[i] = v.resources[i].Over()
	}
	return out
}

// UpdateOver is Update for a view over one that was updated already, with the references of what changed in that one.
func (t *Translator) UpdateOver(v, common *View, differ []resource.Ref, s *registry.Snapshot, changed registry.Changed) (*View, []resource.Ref) {
	if v.hosts.Alone() { // most of it was other than there when it was made
		return t.Update(v, s, changed)
	}
	if affects(changed, v.Class) {
		next := t.BuildOver(common, s, v.Class)
		return next, next.unlike(v)
	}
	e := newEdit(v)
	e.hosts = v.hosts.EditOver(common.hosts, slices.Concat(changed.Hosts, changed.Endpoints))
	var names [resource.Count][]string
	for _, ref := range differ {
		names[ref.Type] = append(names[ref.Type], ref.Name)
	}
	for i := range e.sets {
		e.sets[i] = v.resources[i].EditOver(common.resources[i], names[i])
	}
	return t.move(e, s, changed)
}

// unlike gives what differs from another view, in sending order.
func (v *View) unlike(was *View) []resource.Ref {
	changed := map[resource.Ref]bool{}
	note := func(one, other *View) {
		for _, t := range resource.Types() {
			one.Walk(t, func(r *resource.Resource) bool {
				if o, ok := other.Get(t, r.Name); !ok || o.Version != r.Version {
					changed[resource.Ref{Type: t, Name: r.Name}] = true
				}
				return true
			})
		}
	}
	note(v, was)
	note(was, v)
	return v.inOrder(changed)
}
