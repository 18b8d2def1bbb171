package envoylog

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// Node is the proxy that the entries come from, and the workload that it stands for.
type Node struct {
	ID       string
	Workload record.Workload
}

// methods are the names of envoy.config.core.v3.RequestMethod; one that Envoy has no number for is "".
var methods = [...]string{"", "GET", "HEAD", "POST", "PUT", "DELETE", methodCONNECT: "CONNECT", "OPTIONS", "TRACE", "PATCH"}

const methodCONNECT = 6

// entry is a record being made of an entry.
type entry struct {
	*record.Record
	*logged
	node  *Node
	place wire.Place
}

// request makes the record of an entry of an HTTP connection manager: a request, or a CONNECT. It is false if another entry tells it.
func (r *Reader) request(l *logged, into *record.Record) bool {
	e := entry{into, l, &r.node, r.place}
	e.start()
	e.Authority, e.Status = withoutUser(l.authority), l.status
	if l.method == methodCONNECT {
		e.Class, e.Protocol = record.Network, "tls"
		e.setTarget(e.Authority, 443)
		if net.ParseIP(e.Host) != nil {
			e.Protocol = "tcp"
		} else {
			e.SNI = e.Host
		}
	} else {
		e.Class, e.Protocol = record.HTTP, "http"
		if l.method < uint64(len(methods)) {
			e.Method = methods[l.method]
		}
		e.URLPath = l.path
		if i := strings.IndexAny(e.URLPath, "?#"); i >= 0 { // what follows carries secrets
			e.URLPath = e.URLPath[:i]
		}
		e.setTarget(e.Authority, e.localPort())
	}
	if e.toldElsewhere() {
		return false
	}
	e.judge(l.howItWent)
	return true
}

// askedAbout reads what a sidecar's connection was asked about: "sni:port", ":port" of TLS without a name, or its address.
func (e *entry) askedAbout() {
	if strings.HasPrefix(e.Authority, ":") {
		e.Authority = "-" + e.Authority
	}
	e.setTarget(e.Authority, e.local.port)
	e.Protocol = "tls"
	switch _, err := netip.ParseAddr(e.Host); {
	case e.Host == "-":
		e.Host = e.local.ip
	case err == nil:
		e.Protocol = "tcp"
	default:
		e.SNI = e.Host
		if e.tags.by == wire.ByAddress { // the name is nobody's, and the address is a host's
			e.Host = e.local.ip
		}
	}
}

// connection makes the record of an entry of a TCP proxy.
func (r *Reader) connection(l *logged, into *record.Record) {
	e := entry{into, l, &r.node, r.place}
	e.start()
	e.Class, e.Protocol = record.Network, "tcp"
	e.SNI = l.sni
	e.Authority = withoutUser(l.tags.authority)
	switch e.place {
	case wire.SidecarTunnel:
		e.askedAbout()
	case wire.GatewayTLS, wire.ForwardTLS:
		e.Protocol = "tls"
		e.setTarget(e.Authority, 443)
	case wire.GatewayTCP, wire.ForwardTCP:
		e.setTarget(e.Authority, 0)
	case wire.IngressUDP:
		e.Protocol, e.Cluster, e.Authority, e.Host, e.Port = "udp", l.tags.authority, "", l.local.ip, l.local.port
	case wire.IngressTCP:
		e.Authority, e.Host, e.Port = "", l.local.ip, l.local.port
	case wire.InboundTCP:
		e.Host, e.Port = meant(l.sni), l.local.port
		if e.Host == "" {
			e.Host = l.local.ip
		}
		if e.Authority != "" { // at a waypoint, which asked about it
			e.setTarget(e.Authority, 0)
		}
	default:
		e.Host, e.Port = e.SNI, l.local.port
		if e.Host == "" {
			e.Host = l.local.ip
		} else {
			e.Protocol = "tls"
		}
	}
	if l.tags.route != "" {
		e.Route = l.tags.route
	}
	e.judge(l.ended)
}

// start fills in what all entries have.
func (e *entry) start() {
	l := e.logged
	e.Proxy = e.node.ID
	e.Time = time.Unix(l.seconds, l.nanos).UTC()
	e.Duration = l.duration
	e.BytesReceived, e.BytesSent = l.received, l.sent
	e.Cluster, e.Route = l.cluster, l.route
	e.Destination = l.upstream.String()
	e.Flags = l.flags.names()
	// Envoy's remote address is what X-Forwarded-For says, where there is one: anybody can write that.
	if e.Source = l.tags.source; e.Source == "" {
		e.Source = l.direct.String()
		if l.remote.ip != l.direct.ip {
			e.ForwardedFor = l.remote.ip
		}
	} else if from, _, _ := net.SplitHostPort(e.Source); l.direct.ip == "" && l.remote.ip != from { // by a connection inside of Envoy
		e.ForwardedFor = l.remote.ip
	}
	switch e.place {
	case wire.GatewayHTTP, wire.GatewayTLS, wire.GatewayTCP:
		e.Reporter = record.ReporterGateway
		e.Workload = l.client()
	case wire.IngressHTTP, wire.IngressTLS, wire.IngressTCP, wire.IngressUDP: // who is outside nobody knows
		e.Reporter, e.Workload, e.Dialled = record.ReporterGateway, e.node.Workload, l.local.String()
	case wire.InboundHTTP, wire.InboundTCP, wire.InboundTunnel:
		e.Reporter, e.Workload, e.DestinationWorkload = record.ReporterDestination, l.client(), e.node.Workload
		if ns, name, ok := strings.Cut(l.tags.pod, "/"); ok { // at a node's proxy, which stands for many
			e.DestinationWorkload = record.Workload{Namespace: ns, Name: name}
		}
		if e.Dialled = l.local.String(); e.place == wire.InboundTunnel {
			e.Dialled = l.authority
		}
		e.SNI = l.sni
	case wire.ForwardHTTP, wire.ForwardTLS, wire.ForwardTCP:
		e.Reporter, e.Workload = record.ReporterProxy, e.node.Workload
	default:
		e.Reporter, e.Workload = record.ReporterSidecar, e.node.Workload
		if _, name, ok := strings.Cut(l.tags.pod, "/"); ok { // a node's proxy, which stands for many
			e.Workload = workload(l.tags.peer)
			e.Workload.Name = name
		}
		// An internal listener has no address of its own; there the tag has what came with the connection.
		if e.Dialled = l.tags.target; e.Dialled == "" {
			e.Dialled = l.local.String()
		}
	}
}

// withoutUser takes "user:password@" away, which is wrong in an authority, but may be sent.
func withoutUser(authority string) string { return authority[strings.LastIndex(authority, "@")+1:] }

// setTarget splits "host:port"; without a port it is def.
func (e *entry) setTarget(authority string, def uint32) {
	e.Host, e.Port = authority, def
	if strings.IndexByte(authority, ':') >= 0 { // SplitHostPort makes an error of what has none
		if host, port, err := net.SplitHostPort(authority); err == nil {
			e.Host = host
			if p, err := strconv.ParseUint(port, 10, 16); err == nil {
				e.Port = uint32(p)
			}
		}
	}
	e.Host = strings.ToLower(strings.TrimSuffix(strings.Trim(e.Host, "[]"), "."))
}

// client is whom the gateway verified.
func (l *logged) client() record.Workload {
	id := l.tags.peer
	if l.peers > 0 {
		id = l.peer
	}
	if l.peers > 1 || strings.Contains(id, ",") { // it is nobody's if it could be two's; Envoy writes several names like this
		return record.Workload{}
	}
	return workload(id)
}

// workload reads spiffe://TRUST_DOMAIN/ns/NS/sa/SA.
func workload(id string) record.Workload {
	w := record.Workload{Principal: id}
	_, rest, _ := strings.Cut(strings.TrimPrefix(id, "spiffe://"), "/")
	ns, rest, _ := strings.Cut(rest, "/")
	namespace, rest, _ := strings.Cut(rest, "/")
	sa, account, whole := strings.Cut(rest, "/")
	if whole && ns == "ns" && sa == "sa" && !strings.Contains(account, "/") {
		w.Namespace, w.ServiceAccount = namespace, account
	}
	return w
}

// localPort is the port that a client of a sidecar, an ingress gateway or a pod connected to; gateways and forward proxies take all requests on
// one port, so theirs says nothing and 80 is HTTP's.
func (e *entry) localPort() uint32 {
	switch {
	case e.local.port == 0:
		return 80
	case e.place == wire.SidecarHTTP, e.place == wire.IngressHTTP, e.place == wire.InboundHTTP:
		return e.local.port
	default:
		return 80
	}
}
