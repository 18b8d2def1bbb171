package envoylog_test

import (
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

var (
	began = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	app   = record.Workload{Principal: "spiffe://cluster.local/ns/default/sa/app", Namespace: "default", ServiceAccount: "app", Name: "app-1"}
	// client is app as a gateway knows it: from its certificate, which has no pod.
	client       = record.Workload{Principal: app.Principal, Namespace: "default", ServiceAccount: "app"}
	entry        = record.Object{Kind: "ServiceEntry", Namespace: "default", Name: "external"}
	revisedEntry = record.Object{Kind: "ServiceEntry", Namespace: "default", Name: "external", Revision: revisionTag}
	policy       = record.Object{Kind: "MeshConfig", Namespace: "istio-system", Name: "mesh"}
	node         = envoylog.Node{ID: "sidecar~10.0.0.1~app-1.default~default.svc.cluster.local", Workload: app}
)

const (
	gatewayCluster = "outbound|443||istio-egressgateway.istio-system.svc.cluster.local"
	entryTag       = "ServiceEntry/default/external"
	revisionTag    = "0123456789abcdef0123456789abcdef"
	policyTag      = "MeshConfig/istio-system/mesh"
)

func address(ip string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// inner is an address of an internal listener, which says nothing.
var inner = &corev3.Address{Address: &corev3.Address_EnvoyInternalAddress{EnvoyInternalAddress: &corev3.EnvoyInternalAddress{}}}

// common is what all entries have; tags are pairs.
func common(cluster, route string, tags ...string) *datav3.AccessLogCommon {
	c := &datav3.AccessLogCommon{
		StartTime: timestamppb.New(began), Duration: durationpb.New(20 * time.Millisecond), UpstreamCluster: cluster, RouteName: route,
		DownstreamDirectRemoteAddress: address("10.0.0.1", 41000), DownstreamRemoteAddress: address("10.0.0.1", 41000), DownstreamLocalAddress: address("240.240.0.9", 80), CustomTags: map[string]string{},
	}
	for _, tag := range []string{wire.TagConfig, wire.TagRole, wire.TagPolicy, wire.TagAuthority, wire.TagPeer, wire.TagSource} {
		c.CustomTags[tag] = "-" // as Envoy writes what it does not know
	}
	for i := 0; i+1 < len(tags); i += 2 {
		c.CustomTags[tags[i]] = tags[i+1]
	}
	return c
}

func httpLog(c *datav3.AccessLogCommon, method corev3.RequestMethod, authority, path string, status uint32, details string) *alsv3.StreamAccessLogsMessage {
	return httpLogs(&datav3.HTTPAccessLogEntry{
		CommonProperties: c,
		Request:          &datav3.HTTPRequestProperties{RequestMethod: method, Authority: authority, Path: path, RequestBodyBytes: 7},
		Response:         &datav3.HTTPResponseProperties{ResponseCode: wrapperspb.UInt32(status), ResponseCodeDetails: details, ResponseBodyBytes: 9},
	})
}

func httpLogs(e ...*datav3.HTTPAccessLogEntry) *alsv3.StreamAccessLogsMessage {
	return &alsv3.StreamAccessLogsMessage{LogEntries: &alsv3.StreamAccessLogsMessage_HttpLogs{HttpLogs: &alsv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: e}}}
}

func tcpLog(c *datav3.AccessLogCommon, sni, details string) *alsv3.StreamAccessLogsMessage {
	c.TlsProperties = &datav3.TLSProperties{TlsSniHostname: sni}
	c.ConnectionTerminationDetails = details
	e := &datav3.TCPAccessLogEntry{CommonProperties: c, ConnectionProperties: &datav3.ConnectionProperties{ReceivedBytes: 7, SentBytes: 9}}
	return &alsv3.StreamAccessLogsMessage{LogEntries: &alsv3.StreamAccessLogsMessage_TcpLogs{TcpLogs: &alsv3.StreamAccessLogsMessage_TCPAccessLogEntries{LogEntry: []*datav3.TCPAccessLogEntry{e}}}}
}

// at changes the addresses of an entry.
func at(c *datav3.AccessLogCommon, local, upstream *corev3.Address) *datav3.AccessLogCommon {
	c.DownstreamLocalAddress, c.UpstreamRemoteAddress = local, upstream
	return c
}

func flagged(c *datav3.AccessLogCommon, f *datav3.ResponseFlags) *datav3.AccessLogCommon {
	c.ResponseFlags = f
	return c
}

// sentOn is an entry of something that was sent on.
func sentOn(c *datav3.AccessLogCommon) *datav3.AccessLogCommon {
	c.TimeToFirstUpstreamTxByte = durationpb.New(time.Millisecond)
	return c
}

func peered(c *datav3.AccessLogCommon) *datav3.AccessLogCommon {
	c.TlsProperties = &datav3.TLSProperties{PeerCertificateProperties: &datav3.TLSProperties_CertificateProperties{
		SubjectAltName: []*datav3.TLSProperties_CertificateProperties_SubjectAltName{
			{San: &datav3.TLSProperties_CertificateProperties_SubjectAltName_Uri{Uri: app.Principal}},
		},
	}}
	return c
}

const (
	get     = corev3.RequestMethod_GET
	connect = corev3.RequestMethod_CONNECT
)

// want is the record of an entry, with what all have in common.
func want(r record.Record) *record.Record {
	r.Proxy, r.Time, r.Duration, r.BytesReceived, r.BytesSent = node.ID, began, 20*time.Millisecond, 7, 9
	if r.Source == "" {
		r.Source = "10.0.0.1:41000"
	}
	if r.Direction == "" {
		r.Direction = record.Outbound
	}
	return &r
}

// read gives the records of a message, which is the first of its stream.
func read(t testing.TB, n envoylog.Node, place wire.Place, m *alsv3.StreamAccessLogsMessage) []record.Record {
	t.Helper()
	named := &alsv3.StreamAccessLogsMessage{Identifier: &alsv3.StreamAccessLogsMessage_Identifier{LogName: string(place)}}
	proto.Merge(named, m)
	body, err := proto.Marshal(named)
	if err != nil {
		t.Fatal(err)
	}
	records, err := envoylog.NewReader(n).Records(string(body))
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestRecords(t *testing.T) {
	for name, c := range cases() {
		t.Run(name, func(t *testing.T) {
			got := read(t, node, c.place, c.message)
			var expected []record.Record
			if c.want != nil {
				expected = []record.Record{*c.want}
			}
			if d := cmp.Diff(expected, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestMissingFields: entries with nothing in them are read too.
func TestMissingFields(t *testing.T) {
	for _, place := range places {
		for _, m := range []*alsv3.StreamAccessLogsMessage{
			nil, {}, httpLogs(), httpLogs(nil), httpLogs(&datav3.HTTPAccessLogEntry{}), tcpLog(&datav3.AccessLogCommon{}, "", ""),
		} {
			for _, r := range read(t, node, place, m) {
				if r.Proxy != node.ID || r.Reporter == "" || r.Verdict == "" || r.Path == "" {
					t.Errorf("%s: %+v", place, r)
				}
			}
		}
	}
}

// TestIntermediateEntries: an entry for what still goes on is no record; the last one is.
func TestIntermediateEntries(t *testing.T) {
	c := common("outbound|80||external.com", "default")
	c.IntermediateLogEntry = true
	if got := read(t, node, wire.GatewayHTTP, httpLog(c, get, "external.com", "/", 200, "")); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := read(t, node, wire.GatewayTLS, tcpLog(c, "external.com", "")); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

var places = []wire.Place{
	wire.SidecarHTTP, wire.SidecarTunnel, wire.SidecarTCP, wire.GatewayHTTP, wire.GatewayTLS,
	wire.GatewayTCP, wire.ForwardHTTP, wire.ForwardTLS, wire.ForwardTCP, "another", "",
}

// TestWhatClientsClaim: what a client writes about itself is not who it is.
func TestWhatClientsClaim(t *testing.T) {
	san := func(ids ...string) *datav3.TLSProperties {
		peer := &datav3.TLSProperties_CertificateProperties{}
		for _, id := range ids {
			peer.SubjectAltName = append(peer.SubjectAltName, &datav3.TLSProperties_CertificateProperties_SubjectAltName{
				San: &datav3.TLSProperties_CertificateProperties_SubjectAltName_Uri{Uri: id},
			})
		}
		return &datav3.TLSProperties{PeerCertificateProperties: peer}
	}
	one, two := "spiffe://cluster.local/ns/a/sa/x", "spiffe://cluster.local/ns/b/sa/y"
	for name, tt := range map[string]struct {
		edit                      func(*datav3.AccessLogCommon)
		source, forwarded, caller string
	}{
		"itself": {func(c *datav3.AccessLogCommon) { c.TlsProperties = san(one) }, "10.0.0.1:41000", "", one},
		"X-Forwarded-For": {func(c *datav3.AccessLogCommon) {
			c.TlsProperties = san(one)
			c.DownstreamRemoteAddress = address("192.0.2.66", 0)
		}, "10.0.0.1:41000", "192.0.2.66", one},
		"two names in a certificate":          {func(c *datav3.AccessLogCommon) { c.TlsProperties = san(one, two) }, "10.0.0.1:41000", "", ""},
		"two names in a tunnel's certificate": {func(c *datav3.AccessLogCommon) { c.CustomTags[wire.TagPeer] = one + "," + two }, "10.0.0.1:41000", "", ""},
		"the address of a tunnel's other end": {func(c *datav3.AccessLogCommon) { c.CustomTags[wire.TagSource] = "10.0.0.2:5" }, "10.0.0.2:5", "", ""},
		"what came again inside of Envoy": {func(c *datav3.AccessLogCommon) {
			c.CustomTags[wire.TagSource], c.DownstreamDirectRemoteAddress = "10.0.0.2:5", nil
			c.DownstreamRemoteAddress = address("10.0.0.2", 5)
		}, "10.0.0.2:5", "", ""},
		"what came again, and says that it is for another": {func(c *datav3.AccessLogCommon) {
			c.CustomTags[wire.TagSource], c.DownstreamDirectRemoteAddress = "10.0.0.2:5", nil
			c.DownstreamRemoteAddress = address("192.0.2.66", 0)
		}, "10.0.0.2:5", "192.0.2.66", ""},
		"a tunnel's other end and what it says": {func(c *datav3.AccessLogCommon) { c.CustomTags[wire.TagPeer] = one }, "10.0.0.1:41000", "", one},
	} {
		t.Run(name, func(t *testing.T) {
			c := common("outbound|80||a.test", "default", "role", "external")
			tt.edit(c)
			got := read(t, envoylog.Node{ID: "router"}, wire.GatewayHTTP, httpLog(c, corev3.RequestMethod_GET, "a.test", "/", 200, "via_upstream"))
			if len(got) != 1 || got[0].Source != tt.source || got[0].ForwardedFor != tt.forwarded || got[0].Workload.Principal != tt.caller {
				t.Errorf("%+v", got)
			}
		})
	}
}
