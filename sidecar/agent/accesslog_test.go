package agent

import (
	"context"
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

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/spool"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
	"github.com/sallyport/sallyport/sidecar/relay"
)

// What Envoy logs is on the spool when the agent has ended, also the entries of the last moment.
func TestAccessLogsReachTheSpool(t *testing.T) {
	c := newController(t)
	p := newPod(t, c.addr)
	p.cfg.Records = func(m *accesslogv3.StreamAccessLogsMessage) []record.Record {
		var out []record.Record
		for _, entry := range m.GetHttpLogs().GetLogEntry() {
			out = append(out, record.Record{
				Class: record.HTTP, Time: time.Unix(1, 0), Route: m.GetIdentifier().GetLogName(), URLPath: entry.GetRequest().GetPath(),
			})
		}
		return out
	}
	c.set(relay.ClusterType, map[string]types.Resource{"a": cluster("a", false)})
	c.set(relay.ListenerType, map[string]types.Resource{"in": logged(t, listener(t, p.port))})
	c.set(relay.RouteType, map[string]types.Resource{"80": route("one")})
	p.start()
	eventually(t, p.answers("one"))
	eventually(t, p.answers("one"))
	p.stop()

	s, err := spool.Open(filepath.Join(p.cfg.RunDir, "spool"), spool.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	records, err := s.Next(ctx, 10)
	if err != nil || len(records) != 2 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for _, r := range records {
		if r.Route != "the-log" || r.URLPath != "/" || r.Proxy != "sidecar~10.0.0.1~sleep-1.team-a~team-a.svc.cluster.local" {
			t.Errorf("record %+v", r)
		}
	}
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
