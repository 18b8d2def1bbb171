package envoylog

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/xds/wire"
)

// EndedReason begins what the record says of what was ended; why comes after it.
const EndedReason = "ended when it was not allowed any more: "

// mostUnderWay is how long the path of a request may be, in bytes, that is under way: each is kept for as long.
const mostUnderWay = 32 << 10

// mostAuthority is how long its host and port may be, in bytes: no name is longer, and what is kept of one grows with its dots, too.
const mostAuthority = wire.MostHost + len(".:65535")

// UnderWay reads what an exit's Envoy tells its agent of a request that is under way: as what it came, "METHOD REGISTERED-IN AUTHORITY PATH", who its client is, from where it came, and since when, in
// seconds. "-" is nothing. It is Unknown where nobody can ask about it. Of a CONNECT, kind is what its bytes are taken for: it is asked about as the connection that it is; without
// that its row refuses it: the port is registered for requests, closed, or has no route for it.
func UnderWay(as, peer, from, began, kind string) Tunnel {
	method, rest, _ := strings.Cut(as, " ")
	in, rest, _ := strings.Cut(rest, " ")
	authority, path, whole := strings.Cut(rest, " ")
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end] // no policy looks further
	}
	since, known := readBegan(began)
	connect := method == http.MethodConnect && (kind == wire.KindTLS || kind == wire.KindTCP)
	if method == http.MethodConnect && !connect {
		return Tunnel{Unknown: true, Nowhere: true}
	}
	if !whole || !known || len(path) > mostUnderWay || len(authority) > mostAuthority || !strings.HasPrefix(path, "/") && !connect || strings.Contains(in, "~") || strings.Contains(peer, ",") {
		return Tunnel{Unknown: true}
	}
	if connect {
		return Tunnel{Began: since, Question: Question{Kind: kind, Authority: authority, Peer: orNothing(peer), From: orNothing(from), Subset: orNothing(in)}}
	}
	return Tunnel{Began: since, Question: Question{
		Kind: wire.KindHTTP, Authority: authority, Peer: orNothing(peer), From: orNothing(from), Subset: orNothing(in), Method: method, Path: visible(path),
	}}
}

// Leaving is UnderWay where no exit is: as what it came, "METHOD OUTSIDE HOST:PORT PATH", names what policies judged, which is what is asked about again; table is that of its port, where Envoy
// has several for one, or says what a waypoint's table is to be asked (wire.Front).
func Leaving(as, peer, from, began, table string) Tunnel {
	front, fronted := wire.ParseFront(table)
	t := UnderWay(as, peer, from, began, front.Kind)
	if t.Unknown {
		return t
	}
	t.Outside, t.Subset, t.PortTable = t.Subset, "", orNothing(table)
	if fronted {
		t.Subset, t.PortTable = front.In, wire.WaypointAgain
	}
	if end := strings.LastIndexByte(t.Authority, ':'); end > 0 && strings.Contains(t.Authority[:end], ":") { // an address
		t.Authority = net.JoinHostPort(t.Authority[:end], t.Authority[end+1:])
	}
	return t
}

// orNothing is what Envoy's "-" stands for.
func orNothing(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// readBegan reads seconds with nine digits after the point.
func readBegan(text string) (time.Time, bool) {
	whole, parts, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	nanos, bad := strconv.ParseInt(parts, 10, 64)
	return time.Unix(seconds, nanos).UTC(), err == nil && bad == nil
}

// visible is a path in visible ASCII: other bytes are escaped, as clients should have (RFC 3986 section 2.1).
func visible(path string) string {
	hidden := func(b byte) bool { return b <= ' ' || b >= 0x7f }
	for i := range len(path) {
		if !hidden(path[i]) {
			continue
		}
		out := []byte(path[:i])
		for ; i < len(path); i++ {
			if b := path[i]; hidden(b) {
				out = fmt.Appendf(out, "%%%02X", b)
			} else {
				out = append(out, b)
			}
		}
		return string(out)
	}
	return path
}
