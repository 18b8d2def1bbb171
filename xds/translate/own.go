package translate

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/node"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Pods of a node share tables. A namespace that sees something else than everybody has tables of its own there, by other names, with everybody's
// clusters where those are the same to it. They are a view over what all nodes have.

// ownOf begins, among a node's hosts, what a host is in the tables of a namespace: "NAMESPACE>HOST".
const ownOf = ">"

// HasOwnTables says whether pods of a namespace have tables of their own at the proxies of their nodes.
func HasOwnTables(s *registry.Snapshot, namespace string) bool {
	return s.TablesAtNodes(namespace) && !s.NeedsSecrets(namespace)
}

// ownTables are the namespaces, of some with commas between them, that have tables of their own, likewise.
func ownTables(s *registry.Snapshot, namespaces string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(namespaces, ","), func(ns string) bool { return !HasOwnTables(s, ns) }), ",")
}

// OwnTables are the namespaces of which a class has own tables.
func (c Class) OwnTables() []string {
	if c.Own == "" {
		return nil
	}
	return strings.Split(c.Own, ",")
}

// ofNamespace is the class of a proxy that were one namespace's ofNamespace; of "" that of what all pods share.
func (c Class) ofNamespace(namespace string) Class {
	c.Own, c.View = "", namespace
	return c
}

// owned is what a host became in a namespace's tables.
type owned struct {
	from  node.Own
	leads []string // node.RoutedClusters of what it was made from
	made  *part.Part
}

// own makes, or remembers, a host's share of a namespace's tables; nil where it has none. Everybody's is that of the view below.
func (e *edit) own(s *registry.Snapshot, t *Translator, namespace, host string) *part.Part {
	c := e.next.Class.ofNamespace(namespace)
	theirs := t.host(s, c, host)
	everybodys, _ := e.hosts.Get(host)
	if theirs == nil && everybodys == nil {
		delete(t.owned[namespace], host)
		return nil
	}
	from := node.Own{Namespace: namespace, Theirs: theirs, Everybodys: everybodys}
	was, known := t.owned[namespace][host]
	leads := was.leads
	if !known || was.from.Theirs != theirs {
		leads = node.RoutedClusters(theirs)
	}
	for _, cluster := range leads {
		at := wire.HostOf(cluster)
		if at == host {
			continue
		}
		if below, _ := e.hosts.Get(at); node.ClusterDiffers(t.host(s, c, at), below, cluster) {
			from.Apart = append(from.Apart, cluster)
		}
	}
	if known && was.from.Theirs == theirs && was.from.Everybodys == everybodys && slices.Equal(was.from.Apart, from.Apart) {
		return was.made
	}
	if t.owned[namespace] == nil {
		t.owned[namespace] = map[string]owned{}
	}
	now := owned{from, leads, from.Part()}
	t.owned[namespace][host] = now
	return now.made
}

// KeepOwn forgets what is remembered of the tables of namespaces that none of these classes has.
func (t *Translator) KeepOwn(classes iter.Seq[Class]) {
	if len(t.owned) == 0 {
		return
	}
	kept := map[string]bool{}
	for c := range classes {
		for _, ns := range c.OwnTables() {
			kept[ns] = true
		}
	}
	maps.DeleteFunc(t.owned, func(ns string, _ map[string]owned) bool { return !kept[ns] })
}

// setOwn sets a host's shares of all the tables.
func (e *edit) setOwn(s *registry.Snapshot, t *Translator, host string) {
	for _, ns := range e.next.Class.OwnTables() {
		e.setHost(ns+ownOf+host, e.own(s, t, ns, host))
	}
}

// buildOwn makes the view of a class with own tables over that of what all pods share.
func (t *Translator) buildOwn(common *View, s *registry.Snapshot, c Class) *View {
	v := common.over(c)
	v.uses, v.base, v.from = noUses(), nil, nil
	e := newEdit(v)
	e.new = true
	defer t.packer.Done()
	namespaces := c.OwnTables()
	for host := range s.Hosts() {
		for _, ns := range namespaces {
			p := e.own(s, t, ns, host)
			e.setHost(ns+ownOf+host, p)
			t.packer.Add(p.Loose())
		}
	}
	e.setOwnBase(s, common)
	return e.done()
}

// updateOwn makes the next one, over one that was updated already.
func (t *Translator) updateOwn(v, common *View, differ []resource.Ref, s *registry.Snapshot, changed registry.Changed) (*View, []resource.Ref) {
	if affects(changed, v.Class) {
		next := t.buildOwn(common, s, v.Class)
		return next, next.unlike(v, differ)
	}
	e := v.following(common, differ)
	for _, hosts := range loggedElsewhereBy(changed, v.Class) {
		for _, host := range hosts {
			if !strings.HasPrefix(host, podAt) { // those are in one table of all
				e.setOwn(s, t, host)
			}
		}
	}
	e.setOwnBase(s, common)
	return e.commit()
}

// setOwnBase makes what there is beside the hosts. What is everybody's, too, stays that.
func (e *edit) setOwnBase(s *registry.Snapshot, common *View) {
	resources := e.next.base
	if from := ownInputs(s, e.next.Class, e.uses); !reflect.DeepEqual(e.next.from, baseInputs(from)) {
		resources = from.Resources()
		e.next.from = from
	}
	e.replace(e.next.base, resources)
	for _, r := range e.next.base {
		if _, there := e.sets[r.Type].Get(r.Name); there {
			continue
		}
		if theirs, below := common.Get(r.Type, r.Name); below {
			e.sets[r.Type].Put(r.Name, theirs)
		}
	}
	e.next.base = resources
}

// ownInputs is what they are made from.
func ownInputs(s *registry.Snapshot, c Class, u uses) node.OwnInputs {
	in := node.OwnInputs{Ways: gatewaysUsed(s, c, u), Secrets: materials(s, u)}
	for _, ns := range c.OwnTables() {
		own := sidecarInputs(s, c.ofNamespace(ns), u.in(ns))
		own.Own, own.Pods = ns, true
		for i := range own.Ports {
			own.Ports[i].Own = ns
		}
		in.Of = append(in.Of, own)
	}
	return in
}

func noUses() uses {
	return uses{ports: map[part.PortUse]int{}, ranges: map[part.RangeUse]int{}, gateways: map[part.GatewayRef]int{}, secrets: map[registry.ServedCredential]int{}, fronts: map[part.Front]int{}, leads: map[string]int{}, pods: map[registry.Ref]int{}}
}

// in is what the hosts of a namespace's tables use of ports.
func (u uses) in(namespace string) uses {
	out := noUses()
	for p, n := range u.ports {
		if p.In == namespace {
			out.ports[p] = n
		}
	}
	for r, n := range u.ranges {
		if r.In == namespace {
			out.ranges[r] = n
		}
	}
	return out
}
