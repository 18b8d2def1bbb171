package dnsproxy

import (
	"net/netip"

	"github.com/sallyport/sallyport/dnsproxy/limit"
)

// Asker is the workload whose all questions at a socket are, whatever addresses they say that they come from: in a pod's network anybody may ask
// from any address of the loopback, and with few rights from others', too.
type Asker struct {
	Principal                       string // its SPIFFE id
	Namespace, ServiceAccount, Name string
}

// Key is the asker's name among all.
func (a *Asker) Key() string { return a.Namespace + "/" + a.Name }

// client is who the limits of a Policy take for one.
type client struct {
	asker string
	addr  netip.Addr // of who asks where no asker is known
}

// loopback stands for all of its addresses, which are those of one machine, or of one pod.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// clientOf says who asks.
func (v *view) clientOf(c *call) client {
	if v.asker != "" {
		return client{asker: v.asker}
	}
	addr := c.client.Addr().Unmap().WithZone("")
	if addr.IsLoopback() {
		addr = loopback
	}
	return client{addr: addr}
}

// share is whose place a question takes that waits.
func (v *view) share() limit.Share { return limit.Share{Of: v.of} }

// shareOf is the same of one that is asked upstream: of a name's domain.
func (v *view) shareOf(domain string) limit.Share { return limit.Share{Of: v.of, Part: domain} }
