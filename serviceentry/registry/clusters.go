package registry

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/config"
)

// Objects of other clusters say where endpoints are, and nothing else: their Services, EndpointSlices and Pods count for the Services of the same
// namespaces and names, and the labels of their root namespaces for the networks. A Service that only other clusters have is one, too.

// clusters are the own one, "", and the others that something was read of, in order.
func (r *Registry) clusters() []string {
	return append([]string{""}, slices.Sorted(maps.Keys(r.remotes))...)
}

// of gives how the objects of a cluster hang together.
func (r *Registry) of(cluster string) *index {
	if cluster == "" {
		return &r.index
	}
	return r.remotes[cluster]
}

// home is the key in the own cluster of what is the same there.
func home(key config.Key) config.Key { return key.In("") }

// applyRemote takes a change in another cluster.
func (b *batch) applyRemote(c config.Change) {
	x := b.remotes[c.Key.Cluster]
	if x == nil {
		made := newIndex()
		x = &made
		b.remotes[c.Key.Cluster] = x
		b.rewired = true
	}
	changed := map[config.Key]bool{}
	switch c.Key.Kind {
	case config.KindNamespace:
		b.rewired = b.rewired || c.Key.Name == b.next.Mesh.RootNamespace
	case config.KindService:
		x.setService(c.Key, c.Object)
		b.noteAskedBy(c)
		b.setNetworkGateway(c)
		changed[c.Key] = true
		b.dirty[home(c.Key)] = true
		if ref := (Ref{c.Key.Namespace, c.Key.Name}); b.index.services[ref.Namespace][home(c.Key)] == nil {
			b.setKube(ref)
		}
	case config.KindEndpointSlice:
		changed = x.setSlice(c.Key, c.Object)
	case config.KindPod:
		changed = x.setPod(c.Key, c.Object)
	}
	for key := range changed {
		b.peopled[home(key)] = true
	}
}

// peopleEverywhere marks all Services, whose endpoints may be in other networks now, and the entries with endpoints of their own.
func (b *batch) peopleEverywhere() {
	for _, cluster := range b.clusters() {
		for _, in := range b.of(cluster).services {
			for key := range in {
				b.peopled[home(key)] = true
				if cluster != "" {
					b.dirty[home(key)] = true
				}
			}
		}
	}
	for key := range b.hostsOf.Keys() {
		if key.Kind == config.KindServiceEntry {
			b.dirty[key] = true
		}
	}
}

// endpointsOf are a Service's, of all clusters.
func (b *batch) endpointsOf(service config.Key) []Endpoint {
	var list []Endpoint
	host := Ref{service.Namespace, service.Name}.Host()
	for _, cluster := range b.clusters() {
		x, key := b.of(cluster), service.In(cluster)
		if x.services[key.Namespace][key] == nil || cluster != "" && b.next.clusterLocal(host) {
			continue
		}
		found := x.endpoints(key)
		b.next.topology.place(cluster, found)
		list = append(list, found...)
	}
	if len(b.remotes) > 0 {
		list = sortedEndpoints(list)
	}
	b.front(service.Namespace, list)
	b.next.authenticate(service.Namespace, list)
	b.next.authenticateAtNodes(service.Namespace, list)
	return list
}

// clusterLocal says whether a Service has endpoints of the own cluster only.
func (s *Snapshot) clusterLocal(host string) bool {
	local := false
	for _, row := range s.Mesh.Topology.Local {
		if Covers(row.Host, host) {
			local = row.Local
		}
	}
	return local
}

// fromRemote makes the mesh's view of a Service that the own cluster does not have, as the first cluster says it that does; nil
// without one. Its addresses are those clusters' own, so it has none here.
func (b *batch) fromRemote(key config.Key) []*Service {
	for _, cluster := range b.clusters() {
		o := b.objects.Get(key.In(cluster))
		spec := b.of(cluster).services[key.Namespace][key.In(cluster)]
		if cluster == "" || o == nil || spec == nil || headless(spec) || spec.Spec.ExternalName != "" || b.next.clusterLocal(Ref{key.Namespace, key.Name}.Host()) {
			continue
		}
		s := fromKubeService(o, spec, nil, b.next)
		s.Source, s.Addresses, s.Elsewhere = key, nil, true
		return []*Service{s}
	}
	return nil
}

func compareClusters(a, b Endpoint) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Network, b.Network))
}
