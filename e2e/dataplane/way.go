package main

import (
	"net/netip"

	"github.com/sallyport/sallyport/e2e/world"
)

// way is a path through the mesh, of two Envoys.
type way string

const (
	egress  way = "egress"  // from the app by the egress gateway to the server outside
	mesh    way = "mesh"    // from the app to the app of another pod
	ingress way = "ingress" // from a client outside by the ingress gateway to that pod
)

// end is where a side's clients go on a way.
type end struct {
	from       *world.Host
	host       string // that is asked for
	addr       string // where they connect; "" for what DNS says
	plain, tls int    // at which port
	leaf       []byte // the certificate that is shown, DER
	envoys     [2]int // in the order in which they are passed; 0 for none
	agents     []int
}

// setEnds says where the ways lead, but for their proxies: outside by that address, where DNS does not say it, and a server that shows the leaf; and to
// the ingress gateway, which shows the other one.
func (s *side) setEnds(outside string, leaf, shown []byte) {
	s.ends = map[way]*end{
		egress:  {from: s.world.App, host: host, addr: outside, plain: 80, tls: 443, leaf: leaf},
		mesh:    {from: s.world.App, host: podHost, addr: podService.String(), plain: podPort},
		ingress: {from: s.world.Outside, host: ingressHost, addr: ingressAddr.String(), plain: ingressPlain, tls: ingressTLS, leaf: shown},
	}
}

func (e *end) port(tls bool) int {
	if tls {
		return e.tls
	}
	return e.plain
}

// The pod that others come to, as they know it, and the ingress gateway.
var (
	podAddr     = netip.MustParseAddr("10.77.0.60")
	podService  = netip.MustParseAddr("10.96.0.60")
	ingressAddr = netip.MustParseAddr("10.77.0.61")
)

const (
	podHost     = "measured.default.svc.cluster.local"
	podPort     = 8080
	ingressHost = "in.test"
	// Where the ingress gateway's pods listen.
	ingressPlain, ingressTLS = 8080, 8443
)
