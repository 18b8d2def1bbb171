package envoylog

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/xds/wire"
)

// versionHTTP10 is HTTPVersion's HTTP10.
const versionHTTP10 = 1

// Cut are the clients, as they are connected, of connections by HTTP/1.1 whose request the last message says was ended in the middle of its answer, since it was not allowed any more. Such a connection carries nothing
// else, and Envoy keeps it until its client has taken what had come before. They are good until the next call.
func (r *Reader) Cut() []netip.AddrPort { return r.cut }

// cuts takes note of whose connection it is: at a sidecar and a forward proxy, whose clients have connections with it, and no tunnels in others.
func (r *Reader) cuts(l *logged) {
	if r.place != wire.ForwardHTTP && r.place != wire.SidecarHTTP || l.version != versionHTTP10 && l.version != versionHTTP11 || !l.endedHalfway() {
		return
	}
	if at, err := netip.ParseAddr(strings.Clone(l.direct.ip)); err == nil && l.direct.port != 0 {
		r.cut = append(r.cut, netip.AddrPortFrom(at.Unmap(), uint16(l.direct.port)))
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
