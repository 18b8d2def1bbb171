package outbound

import (
	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
)

// nameTTL is for how long, in seconds, an app may keep a made-up address.
const nameTTL = 60

// nameOf is what the pod's DNS says about a host of an entry: its made-up addresses, or those that the user wrote. A name
// without an address, as all of a wildcard have, is known for one that others may be asked about. Services need no mention:
// the cluster's DNS knows them.
func nameOf(svc *registry.Service, aliases []string) (*resource.Resource, bool) {
	if svc.Source.Kind == config.KindService {
		return nil, false
	}
	n := name.Name{Host: svc.Host, TTL: nameTTL}
	if !svc.Wildcard() {
		if svc.MadeUp != 0 {
			n.Addresses = append(n.Addresses, svc.VIP4(), svc.VIP6())
		}
		for _, a := range svc.Addresses {
			if a.IsSingleIP() {
				n.Addresses = append(n.Addresses, a.Addr())
			}
		}
	}
	if len(n.Addresses) == 0 {
		n.TTL = 0 // it is the answer's
	} else {
		n.Aliases = aliases
	}
	return resource.SealBytes(resource.Name, n.Host, n.Marshal()), true
}
