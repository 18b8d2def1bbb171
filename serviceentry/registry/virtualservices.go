package registry

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// virtuals is the writer's memory of VirtualServices: what each became, and by what else they are to be found.
type virtuals struct {
	made      map[config.Key]*VirtualService
	delegates users[config.Key]           // who has routes by a delegate
	rootUses  map[config.Key][]config.Key // and by which, of each that has
	leadTo    users[string]               // who leads to a host
	boundTo   users[string]               // who is for a Gateway, "NAMESPACE/NAME"
}

// users are the objects that make use of something.
type users[T comparable] map[T]map[config.Key]bool

func (u users[T]) note(of T, by config.Key, uses bool) {
	if !uses {
		if delete(u[of], by); len(u[of]) == 0 {
			delete(u, of)
		}
		return
	}
	if u[of] == nil {
		u[of] = map[config.Key]bool{}
	}
	u[of][by] = true
}

func newVirtuals() virtuals {
	return virtuals{map[config.Key]*VirtualService{}, users[config.Key]{}, map[config.Key][]config.Key{}, users[string]{}, users[string]{}}
}

// setVirtualService takes one in, or a delegate, or removes it, and touches every host that it led or leads.
func (b *batch) setVirtualService(key config.Key) {
	b.makeVirtualService(key)
	for _, root := range slices.Collect(maps.Keys(b.index.virtual.delegates[key])) {
		b.makeVirtualService(root)
	}
}

// makeVirtualService makes one again.
func (b *batch) makeVirtualService(key config.Key) {
	x := &b.index.virtual
	was := x.made[key]
	var is *VirtualService
	var delegates []config.Key
	if o := b.objects.Get(key); o != nil {
		if spec := o.Spec.(*networking.VirtualService); len(spec.Hosts) > 0 {
			parsed := route.Parse(o, spec)
			delegates = parsed.Delegates()
			is = virtualService(o, spec, b.next.Mesh, func(to config.Key) (route.Routes, bool) { return b.delegate(to, key.Namespace) })
		}
	}
	b.noteDelegates(key, delegates)
	if was != nil && is != nil && was.Hash == is.Hash {
		return
	}
	b.noteVirtual(was, false)
	b.noteVirtual(is, true)
	b.setSources(was, is)
	delete(x.made, key)
	if is != nil {
		x.made[key] = is
	}
}

// delegate gives the routes of a delegate, if a namespace may use it.
func (b *batch) delegate(key config.Key, by string) (route.Routes, bool) {
	o := b.objects.Get(key)
	if o == nil {
		return route.Routes{}, false
	}
	spec := o.Spec.(*networking.VirtualService)
	if len(spec.Hosts) > 0 || !exportTo(spec.ExportTo, o.Namespace, b.next.Mesh.DefaultVirtualServiceExportTo).Includes(by) {
		return route.Routes{}, false
	}
	return route.Parse(o, spec), true
}

// noteDelegates remembers whose routes an object has.
func (b *batch) noteDelegates(root config.Key, delegates []config.Key) {
	x := &b.index.virtual
	for _, of := range x.rootUses[root] {
		x.delegates.note(of, root, false)
	}
	delete(x.rootUses, root)
	for _, of := range delegates {
		x.delegates.note(of, root, true)
	}
	if len(delegates) > 0 {
		x.rootUses[root] = delegates
	}
}

// noteVirtual puts one into the indexes, or takes it out, and touches the hosts that it leads.
func (b *batch) noteVirtual(v *VirtualService, there bool) {
	if v == nil {
		return
	}
	by := -1
	if there {
		by = +1
	}
	for _, host := range v.lookedUp() {
		b.putVirtual(host, v, there)
	}
	for host := range v.ends {
		b.index.virtual.leadTo.note(host, v.Key, there)
		b.putLeading(host, v, there)
	}
	b.askedAgain[v.Key] = true
	for _, g := range v.Gateways {
		b.index.virtual.boundTo.note(g, v.Key, there)
	}
	b.touchContested(v)
	if v.ofGatewayAPI() {
		b.countAttached(v)
		return
	}
	b.noteBelow(v, by)
	for _, ns := range v.viewers() {
		b.countView(ns, v.Key.Namespace, by, !v.alikeForAll())
	}
}

func (b *batch) putVirtual(host string, v *VirtualService, there bool) {
	old, _ := b.virtual.Get(tailOf(host))
	list := slices.DeleteFunc(slices.Clone(old), func(x *VirtualService) bool { return x.Key == v.Key })
	if there {
		list = append(list, v)
		slices.SortFunc(list, (*VirtualService).compare)
	}
	if len(list) == 0 {
		b.virtual.Delete(tailOf(host))
	} else {
		b.virtual.Put(tailOf(host), list)
	}
	b.touchCovered(host)
}

// lookedUp are the hosts by which it is found. Those of routes for ingress gateways are not looked up: neither sidecars nor exits follow them.
func (v *VirtualService) lookedUp() []string {
	if !v.ofGatewayAPI() {
		return v.Hosts
	}
	var out []string
	for _, l := range v.Leaves {
		if !slices.Contains(out, l.Host) {
			out = append(out, l.Host)
		}
	}
	return out
}

// followDestinations marks the hosts that are led to others which this batch touched.
func (b *batch) followDestinations() {
	if len(b.index.virtual.leadTo) == 0 {
		return
	}
	again := map[config.Key]bool{}
	for host := range b.touched {
		maps.Copy(again, b.index.virtual.leadTo[host])
	}
	for key := range again {
		b.askedAgain[key] = true
		for _, host := range b.index.virtual.made[key].lookedUp() {
			b.covered(host, func(host string) {
				if list, _ := b.hosts.Get(host); len(list) > 0 {
					b.touched[host] = true
				}
			})
		}
	}
}

// touchBound marks the hosts whose VirtualServices are for a Gateway.
func (b *batch) touchBound(g *Gateway) {
	if g == nil {
		return
	}
	b.touchBoundTo(g.refs())
	for _, set := range g.Sets {
		b.touchBoundTo(refsOf(set.servers))
	}
}

// touchBoundTo marks those that are for some servers.
func (b *batch) touchBoundTo(refs []string) {
	for _, ref := range refs {
		for key := range b.index.virtual.boundTo[ref] {
			b.askedAgain[key] = true
			v := b.index.virtual.made[key]
			for host := range v.ends {
				b.led[host] = true
				maps.Copy(b.retold, b.index.gatewayAPI.targets[host]) // which say by which Gateways
			}
			for _, host := range v.lookedUp() {
				b.touchCovered(host)
			}
		}
	}
}
