package ingress

import (
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Backend is what the part of a host of the mesh is made from that routes lead to.
type Backend struct {
	resolve.IngressTarget
	Trust    envoy.TrustDomains
	Sessions uint32 // of a cluster for UDP: how many clients it has at a time
}

// Part is its clusters: one a port and subset.
func (t *Backend) Part() *part.Part {
	p := part.New()
	p.Secrets = t.Restrictions.Secrets()
	if t.Front != nil {
		p.Resources = t.toWaypoint()
		return p
	}
	for _, port := range t.ports() {
		for _, s := range t.Rule.SubsetsAndAll() {
			p.Resources = append(p.Resources, t.cluster(port, s)...)
		}
	}
	for _, port := range t.untouched() {
		for _, s := range t.Rule.SubsetsAndAll() {
			p.Resources = append(p.Resources, t.made(wire.UntouchedCluster(port.Number, s.Name, t.Service.Host), port, s, nil, farend.Mutual{})...)
		}
	}
	return p
}

// toWaypoint is how the host's waypoint is reached, by the ports that are open.
func (t *Backend) toWaypoint() (out []*resource.Resource) {
	front := *t.Front
	front.Endpoints = t.Connectable(front.Endpoints)
	for _, port := range t.ports() {
		out = append(out, farend.ToWaypoint(&front, t.Service, port, t.Trust, t.Connect, envoy.Metadata(wire.RoleMesh, envoy.ObjectRef(t.Service.SourceOf(port))))...)
	}
	return out
}

// untouched are the ports to which gateways speak TLS for requests, and lead TLS that passes them as it is, too.
func (t *Backend) untouched() []registry.Port {
	if !t.Untouched {
		return nil
	}
	var out []registry.Port
	for _, p := range t.Service.Ports {
		tls := t.Rule.TLSFor(p.Number)
		if c, closed := t.Restrictions.Closed[p.Number]; tls.Always() && (!closed || t.Rule.ClosesFor(tls, c)) {
			p.Protocol = registry.TLS
			out = append(out, p)
		}
	}
	return out
}

// ports are those that something may be led to.
func (t *Backend) ports() []registry.Port {
	return slices.DeleteFunc(slices.Clone(t.Service.Ports), func(p registry.Port) bool {
		_, closed := t.Restrictions.Closed[p.Number]
		return closed || p.Protocol == registry.UDP
	})
}

// datagrams are those for UDP. Their clusters are the names' that lead there (Name.datagrams).
func (t *Backend) datagrams() []registry.Port {
	if !t.UDP {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(t.Service.Ports), func(p registry.Port) bool { return p.Protocol != registry.UDP })
}

func (t *Backend) cluster(port registry.Port, s registry.Subset) []*resource.Resource {
	tls := t.Rule.TLSFor(port.Number)
	mutual := farend.MutualTo(t.Mutual(port), t.Service, port, s.Name, t.MeshTLS, tls, t.Trust)
	return t.made(wire.SubsetName(port.Number, s.Name, t.Service.Host), port.Within(tls), s, tls, mutual)
}

// made is a cluster of a port and subset, which is spoken to by TLS, or by mutual TLS of the mesh.
func (t *Backend) made(name string, port registry.Port, s registry.Subset, tls *registry.TLSSettings, mutual farend.Mutual) []*resource.Resource {
	svc := *t.Service
	svc.Resolution = registry.Static // of a headless Service too: the client chose no pod
	svc.Endpoints = t.Connectable(farend.Reachable(svc.Endpoints, t.Restrictions))
	part := farend.SubsetOf(&svc, s)
	way := t.way(port, s)
	way.Mutual = mutual
	way.TLS, way.Given, way.Connect = tls, t.Restrictions.Given[port.Number], t.Rule.ConnectTimeoutOf(s.Name, port.Number, t.Connect)
	way.Sessions = t.Sessions
	return farend.Cluster(resource.Cluster, name, part, port, way, envoy.Metadata(wire.RoleMesh, envoy.ObjectRef(svc.SourceOf(port))))
}

func (t *Backend) way(port registry.Port, s registry.Subset) farend.Options {
	return farend.Options{Traffic: t.Rule.SubsetTraffic(s.Name, port.Number), Near: t.Near}
}

// Endpoints are those of a Service, one resource a cluster.
func (t *Backend) Endpoints(list []registry.Endpoint) (out []*resource.Resource) {
	if !t.Service.Tabled() || t.Front != nil {
		return nil
	}
	list = t.Connectable(list)
	for _, port := range t.ports() {
		for _, s := range t.Rule.SubsetsAndAll() {
			way := t.way(port, s)
			way.Mutual.To = t.Mutual(port)
			out = append(out, farend.SealLoadAssignment(wire.SubsetName(port.Number, s.Name, t.Service.Host), port, way.Reaching(t.Service, port, s.Of(list))...))
		}
	}
	list = t.Near.Here(list) // what is elsewhere takes mutual TLS, which is not spoken at the others
	for _, port := range t.datagrams() {
		out = append(out, farend.SealLoadAssignment(wire.DatagramEndpoints(port.Number, t.Service.Host), port, t.way(port, registry.Subset{}).Asked(t.Service, list)...))
	}
	for _, port := range t.untouched() {
		for _, s := range t.Rule.SubsetsAndAll() {
			out = append(out, farend.SealLoadAssignment(wire.UntouchedCluster(port.Number, s.Name, t.Service.Host), port,
				t.way(port, s).Asked(t.Service, s.Of(list))...))
		}
	}
	return out
}
