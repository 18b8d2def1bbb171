package interpret

import (
	"net/netip"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestOffByTheFirstRoute: a filter that is off by the route that a request has first stays off, as in Envoy, also where the route that it has later
// turns it on; one that is on does what that one says.
func TestOffByTheFirstRoute(t *testing.T) {
	filter := func(name string, m proto.Message, off bool) *hcmv3.HttpFilter {
		return &hcmv3.HttpFilter{Name: name, Disabled: off, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(m)}}
	}
	aborts := map[string]*anypb.Any{"fault": packed(&faultv3.HTTPFault{Abort: &faultv3.FaultAbort{
		ErrorType: &faultv3.FaultAbort_HttpStatus{HttpStatus: 418}, Percentage: &typev3.FractionalPercent{Numerator: 100},
	}})}
	answering := func(host string, status uint32, filters map[string]*anypb.Any) *routev3.VirtualHost {
		return &routev3.VirtualHost{Domains: []string{host}, Routes: []*routev3.Route{{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}, TypedPerFilterConfig: filters,
			Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: status}},
		}}}
	}
	asks := &luav3.Lua{DefaultSourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: lookUpName}}}
	for _, c := range []struct {
		first, then string
		off         bool
		status      uint32
	}{
		{"plain.test", "faulty.test", true, 298}, {"plain.test", "faulty.test", false, 418},
		{"faulty.test", "plain.test", true, 297}, {"faulty.test", "faulty.test", true, 418},
	} {
		hcm := &hcmv3.HttpConnectionManager{
			RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
				VirtualHosts: []*routev3.VirtualHost{answering("plain.test", 297, nil), answering("faulty.test", 298, aborts)},
			}},
			HttpFilters: []*hcmv3.HttpFilter{filter("asks", asks, false), filter("fault", &faultv3.HTTPFault{}, c.off), filter("router", &routerv3.Router{}, false)},
		}
		l := &listenerv3.Listener{Name: "l", Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "0.0.0.0", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80}}}},
			FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(hcm)}}}}}}
		p, err := New([]Resource{{Name: "l", Message: l}}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		q := &Request{Method: "GET", Authority: c.first, Path: "/", Headers: map[string]string{"x-sallyport-name": c.then}}
		out, err := p.Connect(Connection{To: netip.MustParseAddrPort("10.0.0.1:80"), Bytes: Bytes{Request: q}})
		if err != nil || out.Response == nil || out.Response.Status != c.status {
			t.Errorf("from %s to %s, off: %v: %+v, error %v; want %d", c.first, c.then, c.off, out.Response, err, c.status)
		}
	}
}
