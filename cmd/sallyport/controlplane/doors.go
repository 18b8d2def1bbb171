package controlplane

import (
	"net"
	"net/netip"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// service is the control plane's own Service; without a cluster the one that its objects say is it, if they do.
func (c *Config) service() registry.Ref {
	if c.Cluster == nil {
		return registry.Ref{}
	}
	return registry.Ref{Namespace: c.Cluster.Namespace, Name: c.Cluster.Service}
}

// OwnAddresses are those of this machine, or pod, that others reach it by. Where they cannot be found out, the Service's
// are all that is known.
func OwnAddresses() []netip.Addr {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
			out = append(out, prefix.Addr().Unmap())
		}
	}
	return out
}
