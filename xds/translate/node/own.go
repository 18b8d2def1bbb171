package node

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/outbound"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Own is what a host's share of a namespace's own tables is made from. Its rows are that namespace's, in its tables; its clusters, and what DNS says, are
// everybody's where they are the same.
type Own struct {
	Namespace string
	// Theirs is the share of a proxy that were the namespace's alone, and Everybodys that of what all pods share; nil where they do not see the host.
	Theirs, Everybodys *part.Part
	// Apart are the clusters of other hosts, among those that its rows lead to, that are other ones to the namespace.
	Apart []string
}

// Part is nil where there is nothing of it.
func (o Own) Part() *part.Part {
	apart := o.apart()
	out := part.New()
	out.Resources = o.hidden()
	if o.Theirs != nil {
		out.Gateways, out.Secrets = o.Theirs.Gateways, o.Theirs.Secrets
		for _, p := range o.Theirs.Ports {
			p.In = o.Namespace
			out.Ports = append(out.Ports, p)
		}
		for _, r := range o.Theirs.Ranges {
			r.In = o.Namespace
			out.Ranges = append(out.Ranges, r)
		}
	}
	for _, r := range o.Theirs.All() {
		if own := o.own(r, apart); own != nil {
			out.Resources = append(out.Resources, own)
		}
	}
	if len(out.Resources) == 0 {
		return nil
	}
	return out
}

// apart are the clusters that are other ones to the namespace.
func (o Own) apart() map[string]bool {
	apart := map[string]bool{}
	for _, cluster := range o.Apart {
		apart[cluster] = true
	}
	for _, cluster := range Clusters(o.Theirs) {
		if ClusterDiffers(o.Theirs, o.Everybodys, cluster) {
			apart[cluster] = true
		}
	}
	return apart
}

// Clusters are a part's own.
func Clusters(p *part.Part) (out []string) {
	for _, r := range p.All() {
		if r.Type == resource.Cluster || r.Type == resource.OnDemandCluster {
			out = append(out, r.Name)
		}
	}
	return out
}

// ClusterDiffers says whether a cluster of the one part is another one in the other, or not there.
func ClusterDiffers(theirs, everybodys *part.Part, cluster string) bool {
	for _, r := range theirs.All() {
		if clusterOf(r) == cluster && r.Type != resource.VirtualHost && r.Type != resource.Name && !has(everybodys, r) {
			return true
		}
	}
	return false
}

// clusterOf is the cluster that a resource is, or has the endpoints of.
func clusterOf(r *resource.Resource) string {
	if r.Type == resource.Endpoints {
		return wire.ClusterOfEndpoints(r.Name)
	}
	return r.Name
}

func has(p *part.Part, r *resource.Resource) bool {
	return slices.ContainsFunc(p.All(), func(o *resource.Resource) bool {
		return o.Type == r.Type && o.Name == r.Name && o.Version == r.Version
	})
}

// own is a resource as the namespace has it beside everybody's; nil where it has everybody's.
func (o Own) own(r *resource.Resource, apart map[string]bool) *resource.Resource {
	switch r.Type {
	case resource.VirtualHost:
		vh := &routev3.VirtualHost{}
		unmarshal(r, vh)
		table, host, _ := strings.Cut(vh.Name, "/")
		vh.Name = wire.VhostName(wire.OwnName(o.Namespace, table), host)
		envoy.RenameClusters(vh.Routes, func(cluster string) string {
			switch {
			case apart[cluster]:
				return wire.OwnCluster(o.Namespace, cluster)
			case wire.IsDecide(cluster):
				return wire.OwnName(o.Namespace, cluster)
			}
			return cluster
		})
		return resource.Seal(r.Type, vh.Name, vh)
	case resource.Name:
		if has(o.Everybodys, r) {
			return nil
		}
		n, err := name.Unmarshal(r.Value())
		if err != nil {
			panic("translate: " + r.Name + " does not unmarshal: " + err.Error()) // it was made here
		}
		n.Namespace = o.Namespace
		return resource.SealBytes(r.Type, n.Resource(), n.Marshal())
	}
	if !apart[clusterOf(r)] {
		return nil
	}
	as := wire.OwnCluster(o.Namespace, r.Name)
	if r.Type == resource.Endpoints {
		m := &endpointv3.ClusterLoadAssignment{}
		unmarshal(r, m)
		m.ClusterName = as
		return resource.Seal(r.Type, as, m)
	}
	c := &clusterv3.Cluster{}
	unmarshal(r, c)
	c.Name = as
	if c.LoadAssignment != nil {
		c.LoadAssignment.ClusterName = as
	}
	if eds := c.EdsClusterConfig; eds != nil && eds.ServiceName != "" {
		eds.ServiceName = wire.OwnCluster(o.Namespace, eds.ServiceName)
	}
	return resource.Seal(r.Type, as, c) // bounded already
}

// hidden is that DNS has no answer of its own about a host that the namespace does not see.
func (o Own) hidden() (out []*resource.Resource) {
	for _, r := range o.Everybodys.All() {
		if r.Type != resource.Name || slices.ContainsFunc(o.Theirs.All(), func(own *resource.Resource) bool { return own.Type == r.Type && own.Name == r.Name }) {
			continue
		}
		n := name.Name{Host: r.Name, Namespace: o.Namespace}
		out = append(out, resource.SealBytes(r.Type, n.Resource(), n.Marshal()))
	}
	return out
}

// RoutedClusters are the clusters of other hosts that a part's rows lead to, in order.
func RoutedClusters(p *part.Part) (out []string) {
	own := Clusters(p)
	for _, r := range p.All() {
		if r.Type != resource.VirtualHost {
			continue
		}
		vh := &routev3.VirtualHost{}
		unmarshal(r, vh)
		envoy.RenameClusters(vh.Routes, func(cluster string) string {
			if wire.HostOf(cluster) != "" && !slices.Contains(own, cluster) {
				out = append(out, cluster)
			}
			return cluster
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// OwnInputs is what the tables of namespaces with own ones are made from, beside the hosts, and what those need that nobody else does.
type OwnInputs struct {
	Of      []outbound.Inputs
	Ways    []outbound.Gateway // to gateways that their hosts leave by
	Secrets []farend.Material
}

// Resources are they.
func (in OwnInputs) Resources() []*resource.Resource {
	out := farend.SealSecrets(in.Secrets)
	for _, own := range in.Of {
		out = append(out, own.OwnResources()...)
	}
	for _, g := range in.Ways {
		out = append(out, g.Way(in.Of[0].Connect)...)
	}
	return render(out, len(in.Of) > 0 && in.Of[0].IPv6)
}
