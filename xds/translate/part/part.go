package part

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// Part is one host's share of a view. It is immutable once it was made.
type Part struct {
	Resources []*resource.Resource // but for those that are packed, see Pack
	*Uses                          // what of the base depends on it

	packed resource.Packed
	sum    uint64 // of a packed part: over all of its resources
	found  *Found // see there; nil until it is asked for, and of a packed part where nothing but the host's own name, and addresses, find it
}

// Uses is what of a view's base depends on a host.
type Uses struct {
	Ports    []PortUse
	Ranges   []RangeUse
	Gateways []GatewayRef
	Secrets  []registry.ServedCredential
	// Fronts are what a waypoint opens for the host, and Leads the other hosts that its routes there lead to.
	Fronts []Front
	Leads  []string
	// Pods are, of a pod's own address, at a node the waypoint that it has, and at a waypoint the pod's namespace, without a name.
	Pods []registry.Ref
}

// New is a part of nothing.
func New() *Part { return &Part{Uses: &Uses{}} }

// Front is a port of a Service, or of a host outside, that a waypoint stands before.
type Front struct {
	Host     string
	In       string // of a host outside, the namespace whose registration it is
	Port     uint32
	HTTP     bool   // its requests are read
	TLS      bool   // clients speak TLS, which is not ended
	Outside  bool   // it goes on to an egress gateway
	Closed   bool   // of connections: nothing goes there
	Policies string // the AuthorizationPolicies that count there: "NAMESPACE/NAME,…"
}

// Name is that of its chain, and of its table.
func (f Front) Name() string {
	kind := "tcp"
	if f.HTTP {
		kind = "http"
	}
	return wire.WaypointName(f.Port, wire.OwnName(f.In, kind), f.Host)
}

// PortUse says that a host is reached at a port, and whether what is spoken there can be told from first bytes.
type PortUse struct {
	Number uint32
	Opaque bool // a TCP service: the server may speak first
	// Foreign: another namespace's entry, which does not decide how the port is read.
	Foreign bool
	In      string // the namespace in whose tables it is, at the proxy of a node; "" in those of all
}

// Asks says whether its connections are asked about before they go on: what leaves is.
func (f Front) Asks() bool { return f.Outside && !f.HTTP && !f.Closed }

// Behind is the cluster that what comes goes to: an internal listener's, where it is looked at first.
func (f Front) Behind() string {
	if f.HTTP || f.Asks() {
		return f.Name()
	}
	return wire.ClusterName(f.Port, f.Host)
}

// RangeUse says that a TCP or TLS host owns a range of addresses at a port. A range cannot be a virtual host's domain, so
// the port's listener has to know it: the one thing in a listener that is about a host.
type RangeUse struct {
	Port   uint32
	Prefix netip.Prefix
	Host   string
	TLS    bool   // it takes TLS only
	In     string // as in PortUse
}

// With is the part with further resources; itself without any.
func (p *Part) With(more []*resource.Resource) *Part {
	if len(more) == 0 {
		return p
	}
	out := *p
	out.Resources = append(slices.Clip(p.Resources), more...)
	return &out
}

// Loose are its resources but for those that are packed; none of nil.
func (p *Part) Loose() []*resource.Resource {
	if p == nil {
		return nil
	}
	return p.Resources
}

// All are its resources, also those that are packed; none of nil.
func (p *Part) All() []*resource.Resource {
	if p == nil {
		return nil
	}
	if p.packed.Empty() {
		return p.Resources
	}
	return append(slices.Clip(p.Resources), p.packed.All()...)
}

// GatewayRef is the way to an egress gateway. A borrowed one, which its owner does not name as a gateway, has a cluster
// beside the one that it has as a service.
type GatewayRef struct {
	Ref      registry.Ref
	borrowed bool
}

// LegOf is the way that a service leaves by.
func LegOf(svc *registry.Service) GatewayRef { return GatewayRef{svc.Exit, svc.Borrowed} }

// Cluster is the name of its cluster.
func (l GatewayRef) Cluster() string {
	return wire.GatewayCluster(registry.GatewayPort, l.Ref.Host(), l.borrowed)
}

// SealDNSDefaults is the resource about names that are not in the table.
func SealDNSDefaults(r name.Defaults) *resource.Resource {
	n := name.Name{Host: name.Everything, Defaults: &r}
	return resource.SealBytes(resource.Name, n.Host, n.Marshal())
}
