package translate_test

import (
	"maps"
	"slices"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestDecidedInOneTag: an agent that says so is told in one tag what decided, with the values that another one is told in four; nothing else of what they get differs, and
// none of those is told apart where all are known.
func TestDecidedInOneTag(t *testing.T) {
	places := map[wire.Place]int{}
	for name, c := range cases(t) {
		t.Run(name, func(t *testing.T) {
			c.node.DecidedTag = false
			older := c.view()
			c.node.DecidedTag = true
			newer := c.view()
			for kind := range resource.Count {
				if older.Len(kind) != newer.Len(kind) {
					t.Fatalf("%v: %d and %d", kind, older.Len(kind), newer.Len(kind))
				}
				older.Walk(kind, func(r *resource.Resource) bool {
					n, _ := newer.Get(kind, r.Name)
					switch {
					case n == nil:
						t.Errorf("%v %s is missing", kind, r.Name)
					case joined(t, r).Version != n.Version:
						t.Errorf("%v %s is another", kind, r.Name)
					}
					return true
				})
			}
			logs := logsOf(t, newer)
			for place, four := range logsOf(t, older) {
				one := logs[place]
				if len(one) != len(four) {
					t.Fatalf("%s: %d logs, and %d", place, len(four), len(one))
				}
				for i := range four {
					said, is := one[i][wire.TagDecided]
					for j, value := range wire.SplitDecided(said) {
						if is {
							if _, apart := one[i][wire.DecidedTags[j]]; apart {
								t.Errorf("%s says %s twice", place, wire.DecidedTags[j])
							}
							one[i][wire.DecidedTags[j]] = value
						}
					}
					delete(one[i], wire.TagDecided)
					if d := cmp.Diff(four[i], one[i]); d != "" {
						t.Errorf("%s: -four +one\n%s", place, d)
					}
					if !is && !slices.ContainsFunc(wire.DecidedTags[:], func(tag string) bool { _, there := four[i][tag]; return !there }) {
						t.Errorf("%s says what decided in four tags", place)
					}
					if is {
						places[place]++
					}
				}
			}
		})
	}
	for _, place := range []wire.Place{
		wire.SidecarHTTP, wire.SidecarTunnel, wire.SidecarTCP, wire.GatewayHTTP, wire.GatewayTLS, wire.GatewayTCP, wire.IngressHTTP, wire.IngressTLS, wire.IngressTCP,
		wire.ForwardHTTP, wire.ForwardTLS, wire.ForwardTCP, wire.InboundHTTP, wire.InboundTCP, // the last two of what leaves by a waypoint
	} {
		if places[place] == 0 {
			t.Errorf("no golden logs at %s in one tag: %v", place, slices.Collect(maps.Keys(places)))
		}
	}
}

// joined is a listener whose logs say in one tag what decided, and nothing else of which differs; any other resource as it is.
func joined(t *testing.T, r *resource.Resource) *resource.Resource {
	t.Helper()
	if r.Type != resource.Listener {
		return r
	}
	l := &listenerv3.Listener{}
	must(proto.Unmarshal(r.Value(), l))
	envoy.DecidedInOneTag(l)
	return resource.Seal(r.Type, r.Name, l)
}

// logsOf are the tags of a view's logs of TCP and requests, by place, in order.
func logsOf(t *testing.T, v *translate.View) map[wire.Place][]map[string]string {
	t.Helper()
	out := map[wire.Place][]map[string]string{}
	add := func(logs []*accesslogv3.AccessLog) {
		for _, l := range logs {
			m, err := l.GetTypedConfig().UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			c := m.(interface {
				GetCommonConfig() *grpclogv3.CommonGrpcAccessLogConfig
			}).GetCommonConfig()
			tags := map[string]string{}
			for _, tag := range c.CustomTags {
				tags[tag.Tag] = tag.GetValue()
			}
			out[wire.Place(c.LogName)] = append(out[wire.Place(c.LogName)], tags)
		}
	}
	each(t, v, resource.Listener, func(l *listenerv3.Listener) {
		add(l.AccessLog)
		for _, c := range append(slices.Clone(l.FilterChains), l.DefaultFilterChain) {
			for _, f := range c.GetFilters() {
				hcm, tcp := &hcmv3.HttpConnectionManager{}, &tcpv3.TcpProxy{}
				switch of := f.GetTypedConfig(); {
				case of.UnmarshalTo(hcm) == nil:
					add(hcm.AccessLog)
				case of.UnmarshalTo(tcp) == nil:
					add(tcp.AccessLog)
				}
			}
		}
	})
	return out
}
