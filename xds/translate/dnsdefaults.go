package translate

import (
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// sidecarDNSDefaults is what a pod's DNS does with them. Whom it asks is the pod's own business: the cluster's DNS knows the
// cluster's names, and the resolvers that gateways ask do not.
func sidecarDNSDefaults(s *registry.Snapshot, outside resolve.OutboundPolicy) name.Defaults {
	dns := s.Mesh.DNS
	r := name.Defaults{Rate: dns.Rate, OddRate: dns.OddRate, AllowPrivate: dns.AllowPrivate, KeepECH: dns.ECH == mesh.Keep, DenyUnrecorded: s.Mesh.Audit.WhenFull == mesh.Deny}
	if dns.Refuses(outside.AllowAny) {
		r.Refuse, r.Local, r.DecidedBy = true, append([]string{wire.ClusterDomain}, dns.Local...), envoy.ObjectRef(outside.By)
		if dns.Unregistered == mesh.Refuse {
			r.DecidedBy = meshPolicy(s)
		}
	}
	return r
}

// exitDNSDefaults is whom a gateway asks, and what may be inside. It resolves only what somebody registered.
// To the mesh's reserved addresses a gateway is led by no name either.
func exitDNSDefaults(s *registry.Snapshot, shared bool) name.Defaults {
	dns := s.Mesh.DNS
	r := name.Defaults{Upstreams: dns.Upstreams, AllowPrivate: dns.PrivateHosts(), DenyUnrecorded: s.Mesh.Audit.WhenFull == mesh.Deny}
	if shared {
		for _, addr := range s.ReservedAddresses() {
			r.Never = append(r.Never, addr.String())
		}
	}
	for _, f := range dns.Forward {
		r.Forward = append(r.Forward, name.Forward(f))
	}
	return r
}
