package translate

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// View is what one class of proxies gets. It is immutable and shares what did not change with the view before, and, where it is
// nearly what another class gets, with that one's all that is the same.
type View struct {
	Class     Class
	resources [resource.Count]ordered.Layer[*resource.Resource] // but for those that are packed
	hosts     ordered.Layer[*part.Part]                         // each visible host's share
	packs     packed                                            // which of a host's resources are in its share alone
	opened    *opened
	buckets   ordered.Layer[*bucket]        // of the digest, of classes that ask for rows by name, by the names of their resources
	sum       uint64                        // of it
	fresh     map[string]*resource.Resource // of it what has changed last, see mostFresh
	uses      uses
	base      []*resource.Resource
	from      baseInputs             // of base
	refused   []netip.Addr           // of ingress gateways: what they do not connect to
	shown     *certificates          // which certificates they find by names
	tables    []resolve.IngressTable // and which tables say of others' names that they are not theirs
	levels    frontLevels            // of waypoints
}

// uses counts, over all hosts of a view, what its base depends on.
type uses struct {
	ports    map[part.PortUse]int
	ranges   map[part.RangeUse]int
	gateways map[part.GatewayRef]int
	secrets  map[registry.ServedCredential]int
	fronts   map[part.Front]int
	leads    map[string]int
	pods     map[registry.Ref]int
}

func (u uses) clone() uses {
	return uses{ports: maps.Clone(u.ports), ranges: maps.Clone(u.ranges), gateways: maps.Clone(u.gateways), secrets: maps.Clone(u.secrets), fronts: maps.Clone(u.fronts), leads: maps.Clone(u.leads), pods: maps.Clone(u.pods)}
}

// Get finds a resource.
func (v *View) Get(t resource.Type, name string) (*resource.Resource, bool) {
	if t == resource.Digest {
		return v.digestOf(name)
	}
	r, ok := v.resources[t].Get(name)
	if !ok && v.packs[t] {
		return v.unpacked(t, name)
	}
	return r, ok
}

// Len is how many resources of a type there are.
func (v *View) Len(t resource.Type) int {
	if t == resource.Digest {
		return v.countDigest()
	}
	return v.resources[t].Len() + v.countPacked(t)
}

// EndpointsOf are the endpoints of a cluster, by its name or by one that says where else it leads (wire.WaypointEndpoints, WrappedEndpoints).
func (v *View) EndpointsOf(cluster string) (out []*resource.Resource) {
	if own, ok := v.Get(resource.Endpoints, cluster); ok {
		out = append(out, own)
	}
	v.WalkPrefix(resource.Endpoints, wire.WaypointEndpoints(cluster, ""), func(r *resource.Resource) bool { out = append(out, r); return true })
	return out
}

// Walk goes through the resources of a type in name order until f says false.
func (v *View) Walk(t resource.Type, f func(*resource.Resource) bool) { v.WalkPrefix(t, "", f) }

// WalkPrefix goes through those whose names begin with the prefix.
func (v *View) WalkPrefix(t resource.Type, prefix string, f func(*resource.Resource) bool) {
	switch {
	case t == resource.Digest:
		v.walkDigest(prefix, f)
		return
	case v.packs[t]:
		v.walkPacked(t, prefix, f)
		return
	}
	v.resources[t].WalkPrefix(prefix, func(_ string, r *resource.Resource) bool { return f(r) })
}

// Translator makes views and remembers what each host became, with what it was made from.
// It is for one goroutine.
type Translator struct {
	memo map[string][]remembered // by host; of classes that pack nothing
	packing
	bases []madeBase                    // the last ones: classes of many namespaces have the same
	owned map[string]map[string]owned   // by namespace and host: in the namespace's own tables at nodes
	kept  map[string]*registry.Snapshot // by host: as clients of waypoints have it for now (Keep)
}

// madeBase is a base that was made, and what from.
type madeBase struct {
	from baseInputs
	made []*resource.Resource
}

// keptBases is how many different ones are remembered at a time.
const keptBases = 8

// base makes a base, or gives the one that another class has already.
func (t *Translator) base(from baseInputs, listsHosts bool) []*resource.Resource {
	if listsHosts {
		return from.Resources()
	}
	for _, b := range t.bases {
		if reflect.DeepEqual(b.from, from) {
			return b.made
		}
	}
	b := madeBase{from, from.Resources()}
	t.bases = append([]madeBase{b}, t.bases[:min(len(t.bases), keptBases-1)]...)
	return b.made
}

// remembered is what a host became. There is one for each kind of proxies that differ in it: too few for a map.
type remembered struct {
	from hostInputs
	set  *registry.EndpointSet
	bare *part.Part // without the endpoints of the set
	part *part.Part
}

// NewTranslator makes one without memories.
func NewTranslator() *Translator {
	return &Translator{memo: map[string][]remembered{}, packing: newPacking(), owned: map[string]map[string]owned{}, kept: map[string]*registry.Snapshot{}}
}

// Forget drops what is remembered of hosts and names that changed, but for their endpoints. Call it once for each snapshot, before Update.
func (t *Translator) Forget(changed registry.Changed) {
	if changed.Networks {
		clear(t.memo) // each host's part knows them
		t.recent.Purge()
	}
	for _, h := range changed.Hosts {
		delete(t.memo, h)
		t.recent.Remove(h)
		delete(t.memo, ledTo+h)
	}
	for _, n := range changed.Names {
		delete(t.memo, asked+n)
	}
	for _, a := range changed.Pods {
		delete(t.memo, podAt+a)
	}
}

// Build makes a class's view from nothing.
func (t *Translator) Build(s *registry.Snapshot, c Class) *View {
	if c.Own != "" {
		return t.buildOwn(t.Build(s, c.ofNamespace("")), s, c)
	}
	v := emptyView()
	v.Class, v.uses, v.packs, v.opened = c, noUses(), t.packs(c), t.opened
	e := newEdit(v)
	e.new = true
	e.setRefused(s)
	e.setEach(s, t)
	e.setLed(s, t)
	e.setTables(s, t)
	e.setCertificates(s, registry.Changed{})
	e.setBase(s, t)
	return e.done().forget()
}

// emptyView has nothing in it.
func emptyView() *View {
	v := &View{hosts: ordered.NewLayer(samePart).Sifted(), buckets: emptyBuckets()}
	for i := range v.resources {
		v.resources[i] = ordered.NewLayer(sameResource)
	}
	return v
}

func samePart(a, b *part.Part) bool             { return a.Is(b) }
func sameResource(a, b *resource.Resource) bool { return b != nil && a.Version == b.Version }

// Update makes the next view of a class from the last one. The references are of resources that were added,
// changed or removed, in sending order.
func (t *Translator) Update(v *View, s *registry.Snapshot, changed registry.Changed) (*View, []resource.Ref) {
	return t.move(newEdit(v), s, changed)
}

// UpdateBut is Update, but hosts stay as they are that would go, if stays says so; it is told of those that are set, too.
func (t *Translator) UpdateBut(v *View, s *registry.Snapshot, changed registry.Changed, stays func(host string, goes bool) bool) (*View, []resource.Ref) {
	e := newEdit(v)
	e.stays = stays
	return t.move(e, s, changed)
}

// move takes an edit to what the snapshot says.
func (t *Translator) move(e *edit, s *registry.Snapshot, changed registry.Changed) (*View, []resource.Ref) {
	defer t.packer.Done()
	for _, hosts := range loggedElsewhereBy(changed, e.next.Class) {
		for _, host := range hosts {
			e.setHost(host, e.share(s, t, host))
		}
	}
	refused := e.setRefused(s)
	switch {
	case refused || affects(changed, e.next.Class):
		e.setAllHosts(s, t)
	case e.next.Class.Kind == Waypoint && len(changed.Authorization) > 0:
		e.setFronts(s, t)
	}
	e.setLed(s, t)
	e.setTables(s, t)
	e.setCertificates(s, changed)
	e.setBase(s, t)
	return e.commit()
}

// affects says whether a change is about all hosts of a class.
func affects(changed registry.Changed, c Class) bool {
	return changed.Mesh || changed.Networks || slices.Contains(changed.Scopes, c.Scope) || turnsIngress(changed, c) || waypointTurned(changed, c)
}

// edit is one view being made from another.
type edit struct {
	next *View
	new  bool // it has nothing before that anybody could have been sent

	stays func(host string, goes bool) bool // of what goes, what stays for now; may be nil

	sets    [resource.Count]ordered.LayerEdit[*resource.Resource]
	hosts   *ordered.LayerEdit[*part.Part]
	uses    uses
	changed map[resource.Ref]bool
	given   map[resource.Ref]bool // by hosts in this edit: a name may pass from the base to a host

	// Of what the digest is made: the view below, if there is one, with what has changed in it, and the hosts that have changed, as they were.
	buckets *ordered.LayerEdit[*bucket]
	total   uint64 // what all buckets add up to
	under   *View
	room    []bucketKey // for keys, where many buckets change
	differ  []resource.Ref
	moved   map[string]*part.Part
}

func newEdit(v *View) *edit {
	next := *v
	e := &edit{next: &next, hosts: v.hosts.Edit(), uses: v.uses.clone(), changed: map[resource.Ref]bool{}, given: map[resource.Ref]bool{},
		buckets: v.buckets.Edit(), total: v.sum, moved: map[string]*part.Part{}}
	for i := range e.sets {
		e.sets[i] = *v.resources[i].Edit()
	}
	return e
}

// setHost replaces a host's share; nil removes it.
func (e *edit) setHost(host string, p *part.Part) {
	old, _ := e.hosts.Get(host)
	if e.stays != nil && old != nil && !strings.HasPrefix(host, ledTo) && e.stays(host, p == nil) { // what routes lead to goes with those
		return
	}
	if old == p {
		if e.under != nil { // it may be another one below
			e.foundElsewhere(host, old)
		}
		return
	}
	if old != nil {
		e.count(old, -1)
	}
	e.foundElsewhere(host, old)
	e.replace(old.Loose(), p.Loose())
	e.repack(old, p)
	for _, r := range p.Loose() {
		e.given[resource.Ref{Type: r.Type, Name: r.Name}] = true
	}
	if p == nil {
		e.hosts.Delete(host)
		return
	}
	e.count(p, +1)
	e.hosts.Put(host, p)
}

func (e *edit) setAllHosts(s *registry.Snapshot, t *Translator) {
	var gone []string
	e.next.hosts.Walk(func(host string, _ *part.Part) bool {
		if !there(s, host) {
			gone = append(gone, host)
		}
		return true
	})
	for _, host := range gone {
		e.setHost(host, nil)
	}
	e.setEach(s, t)
}

// setEach sets the shares of all hosts, and names, that there are.
func (e *edit) setEach(s *registry.Snapshot, t *Translator) {
	defer t.packer.Done()
	defer t.ofMany()()
	t.passing = s.Len() > keptRecent
	defer func() { t.passing = false }()
	for host := range s.Hosts() {
		p := e.share(s, t, host)
		e.setHost(host, p)
		t.packer.Add(p.Loose())
	}
	if e.next.Class.frontsPods() {
		for a := range s.FrontedPods() {
			at := podAt + a.String()
			e.setHost(at, t.host(s, e.next.Class, at))
		}
	}
	if e.next.Class.Kind == Ingress {
		e.setNames(s, t)
	}
}

// setNames sets the shares of all names that routes at gateways are for.
func (e *edit) setNames(s *registry.Snapshot, t *Translator) {
	for name := range s.Names() {
		e.setHost(asked+name, t.host(s, e.next.Class, asked+name))
	}
}

// setBase makes the base again, unless what it is made from is the same.
func (e *edit) setBase(s *registry.Snapshot, t *Translator) {
	from := e.next.Class.forAgent(baseFrom(s, e.next.Class, e.uses, e.inline(), e.next.shown))
	if !e.next.Class.Inline && reflect.DeepEqual(from, e.next.from) {
		return
	}
	resources := t.base(from, e.next.Class.Inline)
	e.replace(e.next.base, resources)
	e.next.base, e.next.from = resources, from
}

// replace takes out what is no longer there and puts in what is new or differs.
func (e *edit) replace(old, now []*resource.Resource) {
	kept := make(map[resource.Ref]bool, len(now))
	for _, r := range now {
		kept[resource.Ref{Type: r.Type, Name: r.Name}] = true
		e.put(r)
	}
	for _, r := range old {
		ref := resource.Ref{Type: r.Type, Name: r.Name}
		if kept[ref] || e.given[ref] || e.next.shown.has(r) {
			continue
		}
		e.takeOut(ref)
	}
}

// put puts a resource in, unless it is there as it is.
func (e *edit) put(r *resource.Resource) {
	if was, ok := e.sets[r.Type].Get(r.Name); ok && was.Version == r.Version {
		return
	}
	e.sets[r.Type].Put(r.Name, r)
	e.changes(resource.Ref{Type: r.Type, Name: r.Name})
}

// takeOut removes one.
func (e *edit) takeOut(ref resource.Ref) {
	e.sets[ref.Type].Delete(ref.Name)
	e.changes(ref)
}

func (e *edit) changes(ref resource.Ref) {
	if !e.new {
		e.changed[ref] = true
	}
}

func (e *edit) count(p *part.Part, by int) {
	tally(e.uses.ports, p.Ports, by)
	tally(e.uses.ranges, p.Ranges, by)
	tally(e.uses.gateways, p.Gateways, by)
	tally(e.uses.fronts, p.Fronts, by)
	tally(e.uses.leads, p.Leads, by)
	tally(e.uses.pods, p.Pods, by)
	tally(e.uses.secrets, p.Secrets, by)
}

// tally counts what is used; what is used no more is not there.
func tally[K comparable](counts map[K]int, used []K, by int) {
	for _, k := range used {
		if counts[k] += by; counts[k] == 0 {
			delete(counts, k)
		}
	}
}

// commit gives the view that was made, and what changed in it.
func (e *edit) commit() (*View, []resource.Ref) {
	v := e.done()
	return v, v.inOrder(e.changed)
}

// done gives the view that was made. The edit must not be used after it.
func (e *edit) done() *View {
	e.setDigest()
	for i := range e.sets {
		e.next.resources[i] = e.sets[i].Done()
	}
	e.next.hosts, e.next.uses = e.hosts.Done(), e.uses
	e.next.buckets, e.next.sum = e.buckets.Done(), e.total
	return e.next
}

// inOrder gives what changed in a view, in sending order. A cluster that changes is warmed anew and waits for endpoints, also when
// those are the same.
func (v *View) inOrder(changed map[resource.Ref]bool) []resource.Ref {
	refs := slices.Collect(maps.Keys(changed))
	for _, ref := range refs {
		if ref.Type == resource.Cluster || ref.Type == resource.OnDemandCluster {
			for _, load := range v.EndpointsOf(ref.Name) {
				if again := (resource.Ref{Type: resource.Endpoints, Name: load.Name}); !changed[again] {
					refs = append(refs, again)
				}
			}
		}
	}
	slices.SortFunc(refs, func(a, b resource.Ref) int {
		return cmp.Or(int(a.Type)-int(b.Type), cmp.Compare(a.Name, b.Name))
	})
	return refs
}
