package agent

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	accesslogcfg "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/egress/audit/protobuf"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/spool"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
	"github.com/sallyport/sallyport/sidecar/relay"
)

// What Envoy logs is on the spool when the agent has ended, also the entries of the last moment.
func TestAccessLogsReachTheSpool(t *testing.T) {
	c := newController(t)
	p := newPod(t, c.addr)
	p.cfg.Records = func() LogReader { return new(paths) }
	c.set(relay.ClusterType, map[string]types.Resource{"a": cluster("a", false)})
	c.set(relay.ListenerType, map[string]types.Resource{"in": logged(t, listener(t, p.port))})
	c.set(relay.RouteType, map[string]types.Resource{"80": route("one")})
	p.start()
	eventually(t, p.answers("one"))
	eventually(t, p.answers("one"))
	p.stop()

	records := spooled(t, filepath.Join(p.cfg.RunDir, "spool"))
	if len(records) != 2 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		if r.Route != "the-log" || r.URLPath != "/" || r.Proxy != "sidecar~10.0.0.1~sleep-1.team-a~team-a.svc.cluster.local" {
			t.Errorf("record %+v", r)
		}
	}
}

// paths reads Envoy's messages by the code that is generated of their description.
type paths struct{ log string }

func (p *paths) Records(message string) (out []record.Record, err error) {
	m := &accesslogv3.StreamAccessLogsMessage{}
	if err := proto.Unmarshal([]byte(message), m); err != nil {
		return nil, err
	}
	if name := m.GetIdentifier().GetLogName(); name != "" {
		p.log = name
	}
	for _, entry := range m.GetHttpLogs().GetLogEntry() {
		out = append(out, record.Record{Class: record.HTTP, Time: time.Unix(1, 0), Route: p.log, URLPath: entry.GetRequest().GetPath()})
	}
	return out, nil
}

// spooled are the records that wait in a folder that nobody has open.
func spooled(t *testing.T, dir string) []record.Record {
	t.Helper()
	s, err := spool.Open(dir, spool.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	batch, err := s.Next(ctx, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var out []record.Record
	for f := protobuf.Scan(string(batch.Body)); f.Next(); {
		out = append(out, record.Record{})
		if err := protobuf.ReadRecord(f.Text, &out[len(out)-1]); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// What comes on the access log service and is no message of it ends the stream, and is a gap.
func TestAccessLogThatIsNone(t *testing.T) {
	dir := t.TempDir()
	s, err := spool.Open(dir, spool.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	a := &accessLogs{log: slog.New(slog.DiscardHandler), spool: s, records: func() LogReader { return new(paths) }}
	err = a.StreamAccessLogs(&fromEnvoy{messages: []string{"\xff"}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := spooled(t, dir); len(got) != 1 || got[0].Class != record.Gap || got[0].Count != 1 {
		t.Errorf("records %+v", got)
	}
}

// fromEnvoy is a stream of messages.
type fromEnvoy struct {
	grpc.ClientStreamingServer[accesslogv3.StreamAccessLogsMessage, accesslogv3.StreamAccessLogsResponse]
	messages []string
}

func (f *fromEnvoy) RecvMsg(into any) error {
	if len(f.messages) == 0 {
		return io.EOF
	}
	into.(*wholeMessage).body = []byte(f.messages[0])
	f.messages = f.messages[1:]
	return nil
}

// logged adds Envoy's gRPC access log to a listener's connection manager.
func logged(t *testing.T, l *listenerv3.Listener) *listenerv3.Listener {
	t.Helper()
	filter := l.GetFilterChains()[0].GetFilters()[0]
	manager := new(hcmv3.HttpConnectionManager)
	if err := filter.GetTypedConfig().UnmarshalTo(manager); err != nil {
		t.Fatal(err)
	}
	manager.AccessLog = []*accesslogcfg.AccessLog{{Name: "grpc", ConfigType: &accesslogcfg.AccessLog_TypedConfig{
		TypedConfig: pack(t, &grpclogv3.HttpGrpcAccessLogConfig{CommonConfig: &grpclogv3.CommonGrpcAccessLogConfig{
			LogName: "the-log", TransportApiVersion: corev3.ApiVersion_V3,
			GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: bootstrap.AccessLogCluster},
			}},
		}}),
	}}}
	filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, manager)}
	return l
}
