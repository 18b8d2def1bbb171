package envoylog_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/xds/wire"
)

// begun are the tunnels that an entry says have begun, and how many records it makes.
func begun(t *testing.T, place wire.Place, kind datav3.AccessLogType, tags ...string) (tunnels []envoylog.Tunnel, records int) {
	t.Helper()
	c := common("outbound|443||a.test", "default", tags...)
	c.AccessLogType, c.IntermediateLogEntry = kind, kind == datav3.AccessLogType_TcpUpstreamConnected
	c.StartTime = timestamppb.New(time.Unix(100, 7))
	m := tcpLog(c, "", "")
	m.Identifier = &alsv3.StreamAccessLogsMessage_Identifier{LogName: string(place)}
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r := envoylog.NewReader(envoylog.Node{})
	list, err := r.Records(string(body))
	if err != nil {
		t.Fatal(err)
	}
	return r.Begun(), len(list)
}

func TestTunnelsBegin(t *testing.T) {
	const peer = "spiffe://cluster.local/ns/shop/sa/app"
	tags := []string{"peer", peer, "source", "10.0.0.7:40000", "authority", "A.test:443", "tunnel", "10.0.0.20:8443 shop~203.0.113.7:443"}
	got, records := begun(t, wire.GatewayTLS, datav3.AccessLogType_TcpUpstreamConnected, tags...)
	want := envoylog.Tunnel{
		Question: envoylog.Question{Kind: "tls", Authority: "A.test:443", Peer: peer, From: "10.0.0.7", Subset: "shop~203.0.113.7:443"},
		Local:    netip.MustParseAddrPort("10.0.0.20:8443"), Client: netip.MustParseAddrPort("10.0.0.7:40000"), Began: time.Unix(100, 7).UTC(),
	}
	if len(got) != 1 || got[0] != want || records != 0 {
		t.Fatalf("%+v, and %d records", got, records)
	}
	if host, ns := got[0].Host(), got[0].Namespace(); host != "a.test" || ns != "shop" {
		t.Errorf("host %q, namespace %q", host, ns)
	}
	if got, _ := begun(t, wire.GatewayTCP, datav3.AccessLogType_TcpUpstreamConnected, tags...); len(got) != 1 || got[0].Kind != "tcp" {
		t.Errorf("TCP: %+v", got)
	}
	if got, records := begun(t, wire.GatewayTLS, datav3.AccessLogType_TcpConnectionEnd, tags...); len(got) != 0 || records != 1 {
		t.Errorf("an end: %+v, and %d records", got, records)
	}
	// a forward proxy's clients show nobody who they are, and by HTTP/2 share their connection
	tags = []string{"source", "127.0.0.1:40000", "authority", "a.test:443", "tunnel", "127.0.0.1:3128 "}
	want = envoylog.Tunnel{
		Question: envoylog.Question{Kind: "tls", Authority: "a.test:443", From: "127.0.0.1"},
		Local:    netip.MustParseAddrPort("127.0.0.1:3128"), Client: netip.MustParseAddrPort("127.0.0.1:40000"), Began: time.Unix(100, 7).UTC(),
	}
	if got, records := begun(t, wire.ForwardTLS, datav3.AccessLogType_TcpUpstreamConnected, tags...); len(got) != 1 || got[0] != want || records != 0 {
		t.Errorf("at a forward proxy: %+v, and %d records", got, records)
	}
	if got, _ := begun(t, wire.ForwardTCP, datav3.AccessLogType_TcpUpstreamConnected, tags...); len(got) != 1 || got[0].Kind != "tcp" {
		t.Errorf("TCP at a forward proxy: %+v", got)
	}
	if got, records := begun(t, wire.ForwardTLS, datav3.AccessLogType_TcpUpstreamConnected, append(tags[:4:4], "tunnel", "-")...); len(got) != 1 || !got[0].Unknown || records != 0 {
		t.Errorf("one that shares its connection: %+v, and %d records", got, records)
	}
	tags = []string{"peer", peer, "source", "10.0.0.7:40000", "authority", "A.test:443"}
	// what came in a CONNECT shares its connection with others
	if got, records := begun(t, wire.GatewayTLS, datav3.AccessLogType_TcpUpstreamConnected, append(tags, "tunnel", "-")...); len(got)+records != 0 {
		t.Errorf("no tunnel's: %+v, and %d records", got, records)
	}
}

// TestLeavingBegins: where no exit is, a connection that leaves is told of by what its table was asked.
func TestLeavingBegins(t *testing.T) {
	const peer = "spiffe://cluster.local/ns/shop/sa/app"
	tag := wire.Leaving{Local: "127.0.0.1:15001", Client: "10.0.0.7:40000", Kind: "tls", To: "240.240.0.9:443", Table: "443", Range: "r.test:443"}.Tag()
	want := envoylog.Tunnel{
		Question: envoylog.Question{Kind: "tls", Authority: "A.test:443", Table: "443", Dialled: "240.240.0.9:443", Range: "r.test:443", Registered: "a.test"},
		Local:    netip.MustParseAddrPort("127.0.0.1:15001"), Client: netip.MustParseAddrPort("10.0.0.7:40000"), Began: time.Unix(100, 7).UTC(),
	}
	if got, records := begun(t, wire.SidecarTunnel, datav3.AccessLogType_TcpUpstreamConnected, "authority", "A.test:443", "tunnel", tag); len(got) != 1 || got[0] != want || records != 0 {
		t.Errorf("a sidecar's: %+v, and %d records", got, records)
	}
	want.Peer, want.From, want.Pod = peer, "10.0.0.7", "shop/app-1"
	if got, _ := begun(t, wire.SidecarTunnel, datav3.AccessLogType_TcpUpstreamConnected, "authority", "A.test:443", "tunnel", tag, "peer", peer, "pod", "shop/app-1"); len(got) != 1 || got[0] != want {
		t.Errorf("a node's: %+v", got)
	}
	if got, records := begun(t, wire.SidecarTunnel, datav3.AccessLogType_TcpConnectionEnd, "authority", "A.test:443", "tunnel", tag); len(got) != 0 || records != 1 {
		t.Errorf("an end: %+v, and %d records", got, records)
	}
	if got, records := begun(t, wire.SidecarTunnel, datav3.AccessLogType_TcpUpstreamConnected, "authority", "A.test:443", "tunnel", "-"); len(got) != 1 || !got[0].Unknown || records != 0 {
		t.Errorf("one whose ends nobody knows: %+v, and %d records", got, records)
	}
}

// TestUpgradesBegin: a request that was upgraded has a connection to itself by HTTP/1.1, and by nothing else.
func TestUpgradesBegin(t *testing.T) {
	const peer = "spiffe://cluster.local/ns/shop/sa/app"
	authority, cluster, route, policy, method := "A.test", "outbound|80||a.test", "default", "", corev3.RequestMethod_GET
	read := func(place wire.Place, kind datav3.AccessLogType, version datav3.HTTPAccessLogEntry_HTTPVersion, path string, peers ...string) ([]envoylog.Tunnel, int) {
		t.Helper()
		c := common(cluster, route, "config", "ServiceEntry/bank/a", "policy", policy)
		c.AccessLogType, c.IntermediateLogEntry, c.StartTime = kind, kind != datav3.AccessLogType_DownstreamEnd, timestamppb.New(time.Unix(100, 7))
		c.DownstreamDirectRemoteAddress, c.DownstreamLocalAddress = address("10.0.0.7", 40000), address("10.0.0.20", 8443)
		c.TlsProperties = &datav3.TLSProperties{PeerCertificateProperties: &datav3.TLSProperties_CertificateProperties{}}
		for _, p := range peers {
			c.TlsProperties.PeerCertificateProperties.SubjectAltName = append(c.TlsProperties.PeerCertificateProperties.SubjectAltName,
				&datav3.TLSProperties_CertificateProperties_SubjectAltName{San: &datav3.TLSProperties_CertificateProperties_SubjectAltName_Uri{Uri: p}})
		}
		m := &alsv3.StreamAccessLogsMessage{
			Identifier: &alsv3.StreamAccessLogsMessage_Identifier{LogName: string(place)},
			LogEntries: &alsv3.StreamAccessLogsMessage_HttpLogs{HttpLogs: &alsv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: []*datav3.HTTPAccessLogEntry{{
				CommonProperties: c, ProtocolVersion: version, Request: &datav3.HTTPRequestProperties{RequestMethod: method, Authority: authority, Path: path},
				Response: &datav3.HTTPResponseProperties{},
			}}}},
		}
		body, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		r := envoylog.NewReader(envoylog.Node{})
		list, err := r.Records(string(body))
		if err != nil {
			t.Fatal(err)
		}
		return r.Begun(), len(list)
	}
	const upgraded, http11 = datav3.AccessLogType_DownstreamTunnelSuccessfullyEstablished, datav3.HTTPAccessLogEntry_HTTP11
	got, records := read(wire.GatewayHTTP, upgraded, http11, "/chat?key=secret", peer)
	want := envoylog.Tunnel{
		Question: envoylog.Question{Kind: "http", Authority: "a.test:80", Peer: peer, From: "10.0.0.7", Subset: "bank", Method: "GET", Path: "/chat"},
		Local:    netip.MustParseAddrPort("10.0.0.20:8443"), Client: netip.MustParseAddrPort("10.0.0.7:40000"), Began: time.Unix(100, 7).UTC(),
	}
	if len(got) != 1 || got[0] != want || records != 0 {
		t.Errorf("%+v, and %d records", got, records)
	}
	want.Peer = ""
	if got, records := read(wire.ForwardHTTP, upgraded, http11, "/chat?key=secret"); len(got) != 1 || got[0] != want || records != 0 {
		t.Errorf("at a forward proxy: %+v, and %d records", got, records)
	}
	method = corev3.RequestMethod_CONNECT
	if got, records := read(wire.ForwardHTTP, upgraded, http11, ""); len(got)+records != 0 {
		t.Errorf("a CONNECT at a forward proxy: %+v, and %d records", got, records)
	}
	method = corev3.RequestMethod_GET
	for _, as := range [][3]string{{"x.a.test:8080", "outbound|8080||*.a.test", "default"}, {"b.test", "outbound|443|bank|b.test", "default"}} {
		authority, cluster, route = as[0], as[1], as[2]
		if got, _ := read(wire.GatewayHTTP, upgraded, http11, "/", peer); len(got) != 1 || got[0].Authority != map[string]string{"b.test": "b.test:443"}[authority] && got[0].Authority != authority {
			t.Errorf("%v: %+v", as, got)
		}
	}
	for _, as := range [][3]string{{"c.test", "outbound|80||a.test", "default"}, {"a.test", "outbound|80||a.test", "shop/routes"}, {"a.test", "PassthroughCluster", "default"}} {
		authority, cluster, route = as[0], as[1], as[2]
		if got, _ := read(wire.GatewayHTTP, upgraded, http11, "/", peer); len(got) != 1 || !got[0].Unknown {
			t.Errorf("%v: %+v", as, got)
		}
	}
	authority, cluster, route = "a.test", "outbound|80||a.test", "default"
	if got, records := read(wire.GatewayHTTP, datav3.AccessLogType_DownstreamEnd, http11, "/", peer); len(got) != 0 || records != 1 {
		t.Errorf("an end: %+v, and %d records", got, records)
	}
	for what, of := range map[string]func() []envoylog.Tunnel{
		"it shares its connection": func() []envoylog.Tunnel {
			return first(read(wire.GatewayHTTP, upgraded, datav3.HTTPAccessLogEntry_HTTP2, "/", peer))
		},
		"nobody":    func() []envoylog.Tunnel { return first(read(wire.GatewayHTTP, upgraded, http11, "/")) },
		"two names": func() []envoylog.Tunnel { return first(read(wire.GatewayHTTP, upgraded, http11, "/", peer, peer)) },
		"a path too long": func() []envoylog.Tunnel {
			return first(read(wire.GatewayHTTP, upgraded, http11, "/"+strings.Repeat("x", 2048), peer))
		},
		"a path of other bytes": func() []envoylog.Tunnel { return first(read(wire.GatewayHTTP, upgraded, http11, "/\u00fc", peer)) },
		"a user's route leads it": func() []envoylog.Tunnel {
			policy = "VirtualService/shop/routes"
			return first(read(wire.GatewayHTTP, upgraded, http11, "/", peer))
		},
		"by HEAD": func() []envoylog.Tunnel {
			policy, method = "", corev3.RequestMethod_HEAD
			return first(read(wire.GatewayHTTP, upgraded, http11, "/", peer))
		},
	} {
		policy, method = "", corev3.RequestMethod_GET
		if got := of(); len(got) != 1 || got[0] != (envoylog.Tunnel{Unknown: true}) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got, records := read(wire.SidecarHTTP, upgraded, http11, "/", peer); len(got)+records != 0 {
		t.Errorf("at a sidecar: %+v, and %d records", got, records)
	}
}

func first(tunnels []envoylog.Tunnel, _ int) []envoylog.Tunnel { return tunnels }

func TestReadAnswer(t *testing.T) {
	rule := wire.Rule{Verdict: wire.RuleDenies, Policy: "shop/list", Rule: "no", Reason: "we said so"}
	for name, c := range map[string]struct {
		said   map[string]string
		denied bool
		why    string
	}{
		"it may go there":        {map[string]string{"cluster": "outbound|443||a.test", "rules": "- - - - -      "}, false, ""},
		"a rule":                 {map[string]string{"cluster": wire.BlackHoleCluster, "route": wire.PolicyRoute, "denied": rule.String() + "     "}, true, "denied by EgressPolicy shop/list, rule no: we said so"},
		"nobody registered it":   {map[string]string{"cluster": wire.BlackHoleCluster, "route": wire.BlockAllRoute}, true, "the host is not registered any more"},
		"it is not exported":     {map[string]string{"cluster": wire.BlackHoleCluster, "route": wire.NotExportedRoute}, true, "registered, but not exported to this namespace"},
		"it is closed otherwise": {map[string]string{"cluster": wire.BlackHoleCluster, "route": wire.ClosedRoute + "no such thing"}, true, "no such thing"},
	} {
		answer := &servicev3.RateLimitResponse{OverallCode: servicev3.RateLimitResponse_OK, DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{}}}
		for key, value := range c.said {
			answer.DynamicMetadata.Fields[key] = structpb.NewStringValue(value)
		}
		body, err := proto.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		a, err := envoylog.ReadAnswer(string(body))
		if a.Denied != c.denied || a.Why != c.why || err != nil {
			t.Errorf("%s: %+v %v", name, a, err)
		}
		if by := a.By.Kind + " " + a.By.Namespace; by != map[bool]string{true: "EgressPolicy shop", false: " "}[name == "a rule"] {
			t.Errorf("%s: by %q", name, by)
		}
	}
	for _, nonsense := range []string{"", "\x08\x01", "\xff", "\x32\x05\x0a"} {
		if a, err := envoylog.ReadAnswer(nonsense); err == nil {
			t.Errorf("%q is an answer: %+v", nonsense, a)
		}
	}
}
