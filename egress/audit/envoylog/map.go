package envoylog

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// Node is the proxy that the entries come from, and the workload that it stands for.
type Node struct {
	ID       string
	Workload record.Workload
}

// Records reads a message. The first message of a stream names the log; place is that name.
func Records(n Node, place wire.Place, m *alsv3.StreamAccessLogsMessage) []record.Record {
	var out []record.Record
	for _, e := range m.GetHttpLogs().GetLogEntry() {
		if r, ok := request(n, place, e); ok {
			out = append(out, r)
		}
	}
	for _, e := range m.GetTcpLogs().GetLogEntry() {
		if r, ok := connection(n, place, e); ok {
			out = append(out, r)
		}
	}
	return out
}

// request reads an entry of an HTTP connection manager: a request, or a CONNECT.
func request(n Node, place wire.Place, e *datav3.HTTPAccessLogEntry) (record.Record, bool) {
	common := e.GetCommonProperties()
	if common.GetIntermediateLogEntry() {
		return record.Record{}, false
	}
	r := start(n, place, common)
	req, resp := e.GetRequest(), e.GetResponse()
	connect := req.GetRequestMethod() == corev3.RequestMethod_CONNECT
	r.Authority = withoutUser(req.GetAuthority())
	r.Status = resp.GetResponseCode().GetValue()
	r.BytesReceived, r.BytesSent = req.GetRequestBodyBytes(), resp.GetResponseBodyBytes()
	if connect {
		r.Class, r.Protocol = record.Network, "tls"
		r.setTarget(r.Authority, 443)
		if net.ParseIP(r.Host) != nil {
			r.Protocol = "tcp"
		} else {
			r.SNI = r.Host
		}
	} else {
		r.Class, r.Protocol = record.HTTP, "http"
		if m := req.GetRequestMethod(); m != corev3.RequestMethod_METHOD_UNSPECIFIED { // one that Envoy has no number for
			r.Method = m.String()
		}
		r.URLPath = req.GetPath()
		if i := strings.IndexAny(r.URLPath, "?#"); i >= 0 { // what follows carries secrets
			r.URLPath = r.URLPath[:i]
		}
		r.setTarget(r.Authority, localPort(common, place))
	}
	if told(&r, tag(common, wire.TagRole), resp.GetResponseCodeDetails()) {
		return record.Record{}, false
	}
	r.judge(common, resp.GetResponseCodeDetails())
	return r.Record, true
}

// askedAbout reads what a sidecar's connection was asked about: "sni:port", ":port" of TLS without a name, or its address.
func (r *entry) askedAbout(c *datav3.AccessLogCommon) {
	if strings.HasPrefix(r.Authority, ":") {
		r.Authority = "-" + r.Authority
	}
	r.setTarget(r.Authority, socketPort(c.GetDownstreamLocalAddress()))
	r.Protocol = "tls"
	switch _, err := netip.ParseAddr(r.Host); {
	case r.Host == "-":
		r.Host = socketIP(c.GetDownstreamLocalAddress())
	case err == nil:
		r.Protocol = "tcp"
	default:
		r.SNI = r.Host
		if tag(c, wire.TagBy) == wire.ByAddress { // the name is nobody's, and the address is a host's
			r.Host = socketIP(c.GetDownstreamLocalAddress())
		}
	}
}

// connection reads an entry of a TCP proxy.
func connection(n Node, place wire.Place, e *datav3.TCPAccessLogEntry) (record.Record, bool) {
	common := e.GetCommonProperties()
	if common.GetIntermediateLogEntry() {
		return record.Record{}, false
	}
	r := start(n, place, common)
	r.Class, r.Protocol = record.Network, "tcp"
	r.SNI = common.GetTlsProperties().GetTlsSniHostname()
	r.Authority = withoutUser(tag(common, wire.TagAuthority))
	c := e.GetConnectionProperties()
	r.BytesReceived, r.BytesSent = c.GetReceivedBytes(), c.GetSentBytes()
	switch place {
	case wire.SidecarTunnel:
		r.askedAbout(common)
	case wire.GatewayTLS, wire.ForwardTLS:
		r.Protocol = "tls"
		r.setTarget(r.Authority, 443)
	case wire.GatewayTCP, wire.ForwardTCP:
		r.setTarget(r.Authority, 0)
	default:
		r.Host, r.Port = r.SNI, socketPort(common.GetDownstreamLocalAddress())
		if r.Host == "" {
			r.Host = socketIP(common.GetDownstreamLocalAddress())
		} else {
			r.Protocol = "tls"
		}
	}
	if route := tag(common, wire.TagRoute); route != "" {
		r.Route = route
	}
	r.judge(common, common.GetConnectionTerminationDetails())
	return r.Record, true
}

// entry is a record being read.
type entry struct {
	record.Record
	node  Node
	place wire.Place
}

func start(n Node, place wire.Place, c *datav3.AccessLogCommon) entry {
	r := entry{node: n, place: place}
	r.Proxy = n.ID
	r.Time = c.GetStartTime().AsTime()
	r.Duration = c.GetDuration().AsDuration()
	r.Cluster, r.Route = c.GetUpstreamCluster(), c.GetRouteName()
	r.Destination = socket(c.GetUpstreamRemoteAddress())
	r.Flags = flags(c.GetResponseFlags())
	// Envoy's remote address is what X-Forwarded-For says, where there is one: anybody can write that.
	r.Source = socket(c.GetDownstreamDirectRemoteAddress())
	if s := tag(c, wire.TagSource); s != "" {
		r.Source = s
	} else if claimed := c.GetDownstreamRemoteAddress().GetSocketAddress().GetAddress(); claimed != c.GetDownstreamDirectRemoteAddress().GetSocketAddress().GetAddress() {
		r.ForwardedFor = claimed
	}
	switch place {
	case wire.GatewayHTTP, wire.GatewayTLS, wire.GatewayTCP:
		r.Reporter = record.ReporterGateway
		r.Workload = peer(c)
	case wire.ForwardHTTP, wire.ForwardTLS, wire.ForwardTCP:
		r.Reporter, r.Workload = record.ReporterProxy, n.Workload
	default:
		r.Reporter, r.Workload = record.ReporterSidecar, n.Workload
		// An internal listener has no address of its own; there the tag has what came with the connection.
		if r.Dialled = tag(c, wire.TagTarget); r.Dialled == "" {
			r.Dialled = socket(c.GetDownstreamLocalAddress())
		}
	}
	return r
}

// withoutUser takes "user:password@" away, which is wrong in an authority, but may be sent.
func withoutUser(authority string) string { return authority[strings.LastIndex(authority, "@")+1:] }

// setTarget splits "host:port"; without a port it is def.
func (r *entry) setTarget(authority string, def uint32) {
	r.Host, r.Port = authority, def
	if host, port, err := net.SplitHostPort(authority); err == nil {
		r.Host = host
		if p, err := strconv.ParseUint(port, 10, 16); err == nil {
			r.Port = uint32(p)
		}
	}
	r.Host = strings.ToLower(strings.TrimSuffix(strings.Trim(r.Host, "[]"), "."))
}

// peer is the client that the gateway verified.
func peer(c *datav3.AccessLogCommon) record.Workload {
	id := tag(c, wire.TagPeer)
	for i, san := range c.GetTlsProperties().GetPeerCertificateProperties().GetSubjectAltName() {
		if i > 0 { // it is nobody's if it could be two's
			return record.Workload{}
		}
		id = san.GetUri()
	}
	if strings.Contains(id, ",") { // Envoy writes several names like this
		return record.Workload{}
	}
	return workload(id)
}

// workload reads spiffe://TRUST_DOMAIN/ns/NS/sa/SA.
func workload(id string) record.Workload {
	w := record.Workload{Principal: id}
	parts := strings.Split(strings.TrimPrefix(id, "spiffe://"), "/")
	if len(parts) == 5 && parts[1] == "ns" && parts[3] == "sa" {
		w.Namespace, w.ServiceAccount = parts[2], parts[4]
	}
	return w
}

// tag reads a custom tag; "-" and a missing one are "".
func tag(c *datav3.AccessLogCommon, name string) string {
	v := c.GetCustomTags()[name]
	if v == "-" {
		return ""
	}
	return v
}

func socket(a *corev3.Address) string {
	s := a.GetSocketAddress()
	if s.GetAddress() == "" {
		return ""
	}
	return net.JoinHostPort(s.GetAddress(), strconv.FormatUint(uint64(s.GetPortValue()), 10))
}

func socketIP(a *corev3.Address) string   { return a.GetSocketAddress().GetAddress() }
func socketPort(a *corev3.Address) uint32 { return a.GetSocketAddress().GetPortValue() }

// localPort is the port that a client of a sidecar connected to; gateways and forward proxies take all requests on
// one port, so theirs says nothing and 80 is HTTP's.
func localPort(c *datav3.AccessLogCommon, place wire.Place) uint32 {
	if place == wire.SidecarHTTP {
		if p := socketPort(c.GetDownstreamLocalAddress()); p != 0 {
			return p
		}
	}
	return 80
}
