package interpret

import (
	"net/netip"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestUnknownIsAnError: what this package does not know is named, wherever it is.
func TestUnknownIsAnError(t *testing.T) {
	for want, m := range map[string]proto.Message{
		"lb_subset_config, of envoy.config.cluster.v3.Cluster": &clusterv3.Cluster{Name: "c", LbSubsetConfig: &clusterv3.Cluster_LbSubsetConfig{}},
		"source_ports, of envoy.config.listener.v3.FilterChainMatch": &listenerv3.Listener{Name: "l", FilterChains: []*listenerv3.FilterChain{{
			FilterChainMatch: &listenerv3.FilterChainMatch{SourcePorts: []uint32{1}},
		}}},
		"tls_context, of envoy.config.route.v3.RouteMatch": &routev3.RouteConfiguration{Name: "r", VirtualHosts: []*routev3.VirtualHost{{
			Routes: []*routev3.Route{{Match: &routev3.RouteMatch{TlsContext: &routev3.RouteMatch_TlsContextMatchOptions{}}}},
		}}},
		"messages of type envoy.config.core.v3.SocketOption": &listenerv3.Listener{Name: "l", ListenerFilters: []*listenerv3.ListenerFilter{{
			ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: packed(&corev3.SocketOption{})},
		}}},
	} {
		_, err := New([]Resource{{Name: "x", Message: m}}, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func packed(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return a
}

// TestKnownFieldsExist: a list that names what is not there would hold nothing.
func TestKnownFieldsExist(t *testing.T) {
	for name, of := range known {
		d := descriptorOf(t, name)
		for _, list := range [][]string{of.read, of.idle} {
			for _, f := range list {
				if d.Fields().ByName(protoreflect.Name(f)) == nil {
					t.Errorf("%s has no field %s", name, f)
				}
			}
		}
	}
}

// TestFilterChains: what FilterChainMatch documents, and what a real Envoy did: once a chain names a transport protocol, others of the same
// addresses do not take it.
func TestFilterChains(t *testing.T) {
	within := func(prefix string, bits uint32) []*corev3.CidrRange {
		return []*corev3.CidrRange{{AddressPrefix: prefix, PrefixLen: wrapperspb.UInt32(bits)}}
	}
	l := &listenerv3.Listener{Name: "l", DefaultFilterChain: &listenerv3.FilterChain{Name: "default"}, FilterChains: []*listenerv3.FilterChain{
		{Name: "net-http", FilterChainMatch: &listenerv3.FilterChainMatch{PrefixRanges: within("127.0.0.0", 8), TransportProtocol: "raw_buffer", ApplicationProtocols: []string{"http/1.1"}}},
		{Name: "net", FilterChainMatch: &listenerv3.FilterChainMatch{PrefixRanges: within("127.0.0.0", 8)}},
		{Name: "port", FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(99)}},
		{Name: "name", FilterChainMatch: &listenerv3.FilterChainMatch{ServerNames: []string{"*.a.test"}}},
		{Name: "longer", FilterChainMatch: &listenerv3.FilterChainMatch{ServerNames: []string{"x.a.test", "*.b.a.test"}}},
	}}
	for _, c := range []struct {
		to, transport, sni, alpn, want string
	}{
		{"127.0.0.5:80", "raw_buffer", "", "http/1.1", "net-http"},
		{"127.0.0.5:80", "raw_buffer", "", "", "default"},
		{"127.0.0.5:80", "tls", "", "", "net"},
		{"127.0.0.5:99", "raw_buffer", "", "", "port"},
		{"192.0.2.1:80", "tls", "y.a.test", "", "name"},
		{"192.0.2.1:80", "tls", "x.a.test", "", "longer"},
		{"192.0.2.1:80", "tls", "y.b.a.test", "", "longer"},
		{"192.0.2.1:80", "tls", "a.test", "", "default"},
	} {
		n := &conn{listener: l, to: netip.MustParseAddrPort(c.to), transport: c.transport, sni: c.sni}
		if c.alpn != "" {
			n.alpn = []string{c.alpn}
		}
		if got := n.chain(); got.Name != c.want {
			t.Errorf("%+v: chain %s", c, got.Name)
		}
	}
}

func TestDomains(t *testing.T) {
	vh := func(name string, domains ...string) *routev3.VirtualHost {
		return &routev3.VirtualHost{Name: name, Domains: domains}
	}
	tab := &table{config: &routev3.RouteConfiguration{Name: "80", IgnorePortInHostMatching: true}}
	tab.add([]*routev3.VirtualHost{vh("exact", "a.Test", "[2001:db8::1]"), vh("suffix", "*.test"), vh("longer", "*.b.test"), vh("prefix", "www.*"), vh("any", "*")})
	for authority, want := range map[string]string{
		"A.test:8080": "exact", "[2001:db8::1]:80": "exact", "[2001:db8::1]": "exact", "x.test": "suffix", "x.b.test": "longer", "b.test": "suffix", "www.x": "prefix", "test": "any", "www.test": "suffix",
	} {
		if got := tab.host(authority); got.Name != want {
			t.Errorf("%s: %s, want %s", authority, got.Name, want)
		}
	}
}

func TestHeaders(t *testing.T) {
	r := &Request{Authority: "a.test", Headers: map[string]string{"x": "5"}}
	exact := func(s string) *routev3.HeaderMatcher_StringMatch {
		return &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}}
	}
	for i, c := range []struct {
		m    *routev3.HeaderMatcher
		want bool
	}{
		{&routev3.HeaderMatcher{Name: "X", HeaderMatchSpecifier: exact("5")}, true},
		{&routev3.HeaderMatcher{Name: "x", HeaderMatchSpecifier: exact("5"), InvertMatch: true}, false},
		{&routev3.HeaderMatcher{Name: "y", HeaderMatchSpecifier: exact("5"), InvertMatch: true}, false}, // missing: not looked at
		{&routev3.HeaderMatcher{Name: "y", HeaderMatchSpecifier: exact("5"), InvertMatch: true, TreatMissingHeaderAsEmpty: true}, true},
		{&routev3.HeaderMatcher{Name: "y", HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}, false},
		{&routev3.HeaderMatcher{Name: "y", HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}, InvertMatch: true}, true},
	} {
		if got := matchHeader(c.m, r); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}

func TestExpressions(t *testing.T) {
	n := &conn{try: &try{out: &Outcome{}}, listener: &listenerv3.Listener{}, sni: "outbound_.443_.team~203.0.113.7:9_.a.test"}
	s := &scope{conn: n, metadata: map[string]map[string]string{"f": {"k": "v"}}, state: filterState{"sallyport": {text: "A.test:443"}}, entry: &Entry{Status: 200, Details: "via_upstream"}}
	for text, want := range map[string]string{
		`connection.requested_server_name.split('_.')[1]`:                                          "443",
		`connection.requested_server_name.split('_.')[2].split('~')[1]`:                            "203.0.113.7:9",
		`metadata.filter_metadata['f']['k'] + ':' + string(filter_state['sallyport'])`:             "v:A.test:443",
		`metadata.filter_metadata['f']['none'] + 'x'`:                                              "error",
		`connection.requested_server_name.split('~')[7]`:                                           "error",
		`string(filter_state['sallyport']).lowerAscii().startsWith('a.test')`:                      "true",
		`(response.code == 200 || filter_state['none'] == 'x') && !(response.code_details == "x")`: "true",
		`filter_state['none'] == 'x' && response.code == 200`:                                      "error",
		`filter_state['none'] == 'x' && response.code == 404`:                                      "false",
		`response.code_details in ["a", "via_upstream"]`:                                           "true",
		`'f' in metadata.filter_metadata ? 'there' : 'none'`:                                       "there",
		`('x' in metadata.filter_metadata['f'] ? 1 : 'none')`:                                      "none",
		`(metadata.filter_metadata['f']['k'] + '   ').substring(0, 2)`:                             "v ",
		`'short'.substring(0, 6)`:                                                                  "error",
	} {
		got := "error"
		if v, err := evaluate(parseCEL(text), s); err == nil {
			if b, ok := v.v.(bool); ok {
				got = map[bool]string{true: "true", false: "false"}[b]
			} else {
				got = v.text()
			}
		}
		if got != want {
			t.Errorf("%s = %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{`size('x')`, `a.b`, `1 < 2`, `'x' ? 1`, `response.code ==`, `connection.mtls`} {
		err := func() (err error) {
			defer caught(&err)
			_, _ = evaluate(parseCEL(text), s)
			return nil
		}()
		if err == nil {
			t.Errorf("%s is known", text)
		}
	}
}

func descriptorOf(t *testing.T, name string) protoreflect.MessageDescriptor {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d.(protoreflect.MessageDescriptor)
}
