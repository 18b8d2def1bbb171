package translate

import (
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// sidecarRest is what a pod's DNS does with them. Whom it asks is the pod's own business: the cluster's DNS knows the
// cluster's names, and the resolvers that gateways ask do not.
func sidecarRest(s *registry.Snapshot, outside resolve.Rest) name.Rest {
	dns := s.Mesh.DNS
	r := name.Rest{Rate: dns.Rate, OddRate: dns.OddRate, AllowPrivate: dns.AllowPrivate, KeepECH: dns.ECH == mesh.Keep, DenyUnrecorded: s.Mesh.Audit.WhenFull == mesh.Deny}
	if dns.Refuses(outside.AllowAny) {
		r.Refuse, r.Local, r.DecidedBy = true, append([]string{wire.ClusterDomain}, dns.Local...), envoy.ConfigOf(outside.By)
		if dns.Unregistered == mesh.Refuse {
			r.DecidedBy = meshPolicy(s)
		}
	}
	return r
}

// exitRest is whom a gateway asks, and what may be inside. It resolves only what somebody registered.
// To the mesh's own doors a gateway is led by no name either.
func exitRest(s *registry.Snapshot, shared bool) name.Rest {
	dns := s.Mesh.DNS
	r := name.Rest{Upstreams: dns.Upstreams, AllowPrivate: dns.PrivateHosts(), DenyUnrecorded: s.Mesh.Audit.WhenFull == mesh.Deny}
	if shared {
		for _, addr := range s.Doors() {
			r.Never = append(r.Never, addr.String())
		}
	}
	for _, f := range dns.Forward {
		r.Forward = append(r.Forward, name.Forward(f))
	}
	return r
}
