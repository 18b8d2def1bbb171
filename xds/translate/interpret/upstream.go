package interpret

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dfpclusterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	internalv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/internal_upstream/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// sending is something to be sent to a cluster.
type sending struct {
	cluster *clusterv3.Cluster
	bytes   Bytes
	state   filterState
	conn    *conn // that it is sent for; nil of a proxy's own
	looked  bool  // the name was looked up before, where the cluster needs that
	flags   *[]string
	mirrors []string
}

func (g *sending) flag(f string) {
	if g.flags != nil {
		*g.flags = append(*g.flags, f)
	}
}

// send makes a connection to a cluster, or goes on in the internal listener behind it.
func (t *try) send(g *sending) {
	c := g.cluster
	if inner, ok := t.internal(c); ok {
		defer t.deeper()()
		l := t.proxy.listeners[inner]
		if l == nil || l.GetInternalListener() == nil {
			t.close("no internal listener %q", inner)
			g.flag("UF")
			return
		}
		n := &conn{try: t, listener: l, bytes: g.bytes, state: g.state.along(), metadata: map[string]map[string]string{}}
		n.begin(0)
		return
	}
	u := &Upstream{Cluster: c.Name, Metadata: texts(c.Metadata), Bytes: g.bytes, Mirrors: g.mirrors}
	u.Addresses = t.addresses(g)
	if len(u.Addresses) == 0 {
		g.flag("UH")
	}
	if socket := t.socket(c); socket != nil {
		u.Bytes = t.wrapped(g, socket)
	}
	t.step("connects to %v of cluster %s", u.Addresses, c.Name)
	t.out.Upstream = u
}

// internal says whether a cluster is an internal listener of the same Envoy, and which.
func (t *try) internal(c *clusterv3.Cluster) (string, bool) {
	if c.GetTransportSocket().GetTypedConfig().MessageIs(&internalv3.InternalUpstreamTransport{}) {
		list := endpointsOf(c.LoadAssignment)
		if len(list) != 1 {
			unknown("cluster %q: %d internal addresses", c.Name, len(list))
		}
		return list[0].GetEnvoyInternalAddress().GetServerListenerName(), true
	}
	return "", false
}

func endpointsOf(l *endpointv3.ClusterLoadAssignment) (out []*corev3.Address) {
	for _, group := range l.GetEndpoints() {
		for _, e := range group.LbEndpoints {
			out = append(out, e.GetEndpoint().GetAddress())
		}
	}
	return out
}

// addresses are where a cluster may connect to.
func (t *try) addresses(g *sending) []string {
	c := g.cluster
	if custom := c.GetClusterType(); custom != nil {
		unpack("cluster "+c.Name, custom.TypedConfig, &dfpclusterv3.ClusterConfig{})
		return t.dynamic(g)
	}
	switch c.GetType() {
	case clusterv3.Cluster_ORIGINAL_DST:
		var to netip.AddrPort
		if v, ok := g.state[keyOriginalDst]; ok {
			to, _ = netip.ParseAddrPort(v.text)
		} else if g.conn != nil && g.conn.restored {
			to = g.conn.to
		}
		if !to.IsValid() {
			return nil
		}
		if port := c.GetOriginalDstLbConfig().GetUpstreamPortOverride(); port != nil {
			to = netip.AddrPortFrom(to.Addr(), uint16(port.Value))
		}
		return []string{to.String()}
	case clusterv3.Cluster_EDS, clusterv3.Cluster_STATIC, clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_LOGICAL_DNS:
	default:
		unknown("cluster %q: type %v", c.Name, c.GetType())
	}
	var out []string
	for _, a := range endpointsOf(t.load(c)) {
		s := a.GetSocketAddress()
		if s == nil {
			unknown("cluster %q: an endpoint's address %v", c.Name, a)
		}
		out = append(out, net.JoinHostPort(s.Address, strconv.FormatUint(uint64(s.GetPortValue()), 10)))
	}
	return out
}

// socket is the transport socket of a cluster's endpoint, of which chance decides.
func (t *try) socket(c *clusterv3.Cluster) *corev3.TransportSocket {
	if len(c.TransportSocketMatches) == 0 {
		return c.TransportSocket
	}
	var found []*corev3.TransportSocket
	for _, group := range t.load(c).GetEndpoints() {
		for _, e := range group.LbEndpoints {
			is := c.TransportSocket
			marks := e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"].GetFields()
			for _, m := range c.TransportSocketMatches {
				if carries(marks, m.Match.GetFields()) {
					is = m.TransportSocket
					break
				}
			}
			if !slices.Contains(found, is) {
				found = append(found, is)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[t.chance%uint64(len(found))]
}

func carries(marks, wanted map[string]*structpb.Value) bool {
	for k, v := range wanted {
		if marks[k].GetStringValue() != v.GetStringValue() {
			return false
		}
	}
	return true
}

// load are the endpoints of a cluster that has a list of them.
func (t *try) load(c *clusterv3.Cluster) *endpointv3.ClusterLoadAssignment {
	if c.GetType() != clusterv3.Cluster_EDS {
		return c.LoadAssignment
	}
	name := c.Name
	if alias := c.GetEdsClusterConfig().GetServiceName(); alias != "" {
		name = alias
	}
	return t.proxy.endpoints[name]
}

// dynamic is the address of a cluster that connects to the name that it is told. What was not looked up before has none.
func (t *try) dynamic(g *sending) []string {
	if !g.looked && (g.conn == nil || !g.conn.looked) {
		t.step("nobody looked the name up for cluster %s", g.cluster.Name)
		return nil
	}
	host, port := "", "80"
	if r := g.bytes.Request; r != nil {
		host = r.Authority
	}
	if v, ok := g.state[keyDynamicHost]; ok {
		host = v.text
	}
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	}
	if v, ok := g.state[keyDynamicPort]; ok {
		port = v.text
	}
	return []string{net.JoinHostPort(strings.ToLower(host), port)}
}

// wrapped are the bytes inside of the TLS that a cluster speaks.
func (t *try) wrapped(g *sending, socket *corev3.TransportSocket) Bytes {
	c := g.cluster
	ctx := unpack("cluster "+c.Name, socket.GetTypedConfig(), &tlsv3.UpstreamTlsContext{})
	inside := g.bytes
	h := &Hello{SNI: ctx.Sni, ALPN: ctx.GetCommonTlsContext().GetAlpnProtocols(), Inside: &inside}
	if options, ok := httpOptionsOf(c); ok && g.bytes.Request != nil && options.GetUpstreamHttpProtocolOptions().GetAutoSni() {
		h.SNI = hostOnly(g.bytes.Request.Authority)
	}
	if v, ok := g.state[keyServerName]; ok {
		h.SNI = v.text
	}
	if v, ok := g.state[keyALPN]; ok {
		h.ALPN = strings.Split(v.text, ",")
	}
	for _, s := range ctx.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs() {
		if s.Name == OwnCertificate {
			h.Peer = t.proxy.identity
		}
	}
	if ctx.GetCommonTlsContext().GetCustomTlsCertificateSelector() != nil { // which is by that, see known
		h.Peer = nil
		if v, ok := g.state[keyIdentity]; ok {
			h.Peer = []string{v.text}
		}
	}
	return Bytes{Hello: h}
}

// OwnCertificate is the name of the secret with the proxy's own certificate; Istio's.
const OwnCertificate = "default"

func httpOptionsOf(c *clusterv3.Cluster) (*httpv3.HttpProtocolOptions, bool) {
	a, ok := c.TypedExtensionProtocolOptions["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
	if !ok {
		return nil, false
	}
	return unpack("cluster "+c.Name, a, &httpv3.HttpProtocolOptions{}), true
}

// hostOnly is an authority without its port.
func hostOnly(authority string) string {
	i := strings.LastIndexByte(authority, ':')
	if i < 0 || strings.LastIndexByte(authority, ']') > i {
		return authority
	}
	return authority[:i]
}

// lookedUp notes that a connection's name is looked up, which the cluster behind needs.
func (n *conn) lookedUp(s *scope) {
	if _, ok := s.state[keyDynamicHost]; !ok && n.sni == "" {
		n.step("there is no name to be looked up")
		return
	}
	n.looked = true
}
