package envoylog

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/xds/wire"
)

// versionHTTP10 is HTTPVersion's HTTP10.
const versionHTTP10 = 1

// Broken is a client's connection with a port of the proxy, by HTTP/1.1, whose request was ended in the middle of its answer, since it was not allowed any more. It carries nothing else, and Envoy keeps it until its client has taken
// what had come before.
type Broken struct {
	Client netip.AddrPort
	Port   uint16
}

// Cut are those that the last message tells of. They are good until the next call.
func (r *Reader) Cut() []Broken { return r.cut }

// cuts takes note of one: at a sidecar, where connections are redirected to one port, and at a forward proxy. Elsewhere a request may be in a tunnel that carries others.
func (r *Reader) cuts(l *logged) {
	port := uint16(wire.OutboundPort)
	switch r.place {
	case wire.SidecarHTTP:
	case wire.ForwardHTTP:
		port = uint16(l.local.port)
	default:
		return
	}
	if l.version != versionHTTP10 && l.version != versionHTTP11 || !l.endedHalfway() {
		return
	}
	if at, err := netip.ParseAddr(strings.Clone(l.direct.ip)); err == nil && l.direct.port != 0 {
		r.cut = append(r.cut, Broken{netip.AddrPortFrom(at.Unmap(), uint16(l.direct.port)), port})
	}
}

// endedHalfway says whether a request was ended when its answer had begun. Before, Envoy gives an answer of its own.
func (l *logged) endedHalfway() bool {
	switch {
	case l.status == 0:
		return false
	case strings.HasPrefix(l.howItWent, wire.EndedDetails):
		return l.status != http.StatusForbidden
	default:
		return l.flags&(1<<flagMaxDuration) != 0 && l.status != http.StatusRequestTimeout && l.status != http.StatusGatewayTimeout
	}
}
