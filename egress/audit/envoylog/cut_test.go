package envoylog_test

import (
	"net/netip"
	"slices"
	"testing"

	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestCut: a connection is told of whose request was ended in the middle of its answer, where it carries nothing else.
func TestCut(t *testing.T) {
	const ended, http11, http2 = wire.EndedDetails + "denied", datav3.HTTPAccessLogEntry_HTTP11, datav3.HTTPAccessLogEntry_HTTP2
	for what, c := range map[string]struct {
		place   wire.Place
		version datav3.HTTPAccessLogEntry_HTTPVersion
		status  uint32
		details string
		late    bool // its rule ended
		want    bool
	}{
		"by who asks":                      {wire.ForwardHTTP, http11, 200, ended, false, true},
		"by HTTP/1.0":                      {wire.SidecarHTTP, datav3.HTTPAccessLogEntry_HTTP10, 206, ended, false, true},
		"an upgrade":                       {wire.SidecarHTTP, http11, 101, ended, false, true},
		"by its rule's end":                {wire.ForwardHTTP, http11, 200, "upstream_max_stream_duration_reached", true, true},
		"it shares its connection":         {wire.ForwardHTTP, http2, 200, ended, false, false},
		"at a gateway":                     {wire.GatewayHTTP, http11, 200, ended, false, false},
		"before its answer":                {wire.ForwardHTTP, http11, 403, ended, false, false},
		"before its answer, by its rule":   {wire.ForwardHTTP, http11, 408, "upstream_max_stream_duration_reached", true, false},
		"it came to its own end":           {wire.ForwardHTTP, http11, 200, "via_upstream", false, false},
		"it was answered by nobody":        {wire.ForwardHTTP, http11, 0, ended, false, false},
		"what nobody could keep an eye on": {wire.ForwardHTTP, http11, 503, wire.TooManyDetails, false, false},
	} {
		properties := common("outbound|80||a.test", "default")
		properties.DownstreamDirectRemoteAddress, properties.DownstreamLocalAddress = address("10.0.0.7", 40000), address("10.0.0.20", 3128)
		properties.ResponseFlags = &datav3.ResponseFlags{UpstreamMaxStreamDurationReached: c.late}
		body, err := proto.Marshal(&alsv3.StreamAccessLogsMessage{
			Identifier: &alsv3.StreamAccessLogsMessage_Identifier{LogName: string(c.place)},
			LogEntries: &alsv3.StreamAccessLogsMessage_HttpLogs{HttpLogs: &alsv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: []*datav3.HTTPAccessLogEntry{{
				CommonProperties: properties, ProtocolVersion: c.version, Request: &datav3.HTTPRequestProperties{Authority: "a.test", Path: "/"},
				Response: &datav3.HTTPResponseProperties{ResponseCode: wrapperspb.UInt32(c.status), ResponseCodeDetails: c.details},
			}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		r := envoylog.NewReader(envoylog.Node{})
		if list, err := r.Records(string(body)); err != nil || len(list) != 1 {
			t.Fatalf("%s: %d records, %v", what, len(list), err)
		}
		var want []envoylog.Broken
		if c.want {
			want = []envoylog.Broken{{Client: netip.MustParseAddrPort("10.0.0.7:40000"), Port: map[wire.Place]uint16{wire.ForwardHTTP: 3128, wire.SidecarHTTP: 15001}[c.place]}}
		}
		if got := r.Cut(); !slices.Equal(got, want) {
			t.Errorf("%s: %v", what, got)
		}
	}
}
