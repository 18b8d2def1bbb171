package serve

import (
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/config/mesh"
)

// TestNodeTopology: what a proxy's ProxyConfig says of the proxies in front of it is read, as Istio's agents write it; of what is wrong nothing counts, and it is said.
func TestNodeTopology(t *testing.T) {
	for metadata, want := range map[string]struct {
		says  mesh.GatewayTopology
		wrong bool
	}{
		`{}`:                                   {},
		`{"PROXY_CONFIG": "no"}`:               {},
		`{"PROXY_CONFIG": {"concurrency": 2}}`: {},
		`{"PROXY_CONFIG": {"gatewayTopology": null}}`:                                                                                  {},
		`{"PROXY_CONFIG": {"gatewayTopology": {}}}`:                                                                                    {says: mesh.GatewayTopology{Said: true}},
		`{"PROXY_CONFIG": {"gatewayTopology": "&a [*a]"}}`:                                                                             {wrong: true},
		`{"PROXY_CONFIG": {"gatewayTopology": {"numTrustedProxies": 1.5}}}`:                                                            {wrong: true},
		`{"PROXY_CONFIG": {"gatewayTopology": {"numTrustedProxies": 2, "proxyProtocol": {}, "forwardClientCertDetails": "SANITIZE"}}}`: {says: mesh.GatewayTopology{TrustedProxies: 2, ProxyProtocol: true, ClientCertificates: mesh.Sanitize, Said: true}},
		`{"PROXY_CONFIG": {"gatewayTopology": {"numTrustedProxies": 65}}}`:                                                             {wrong: true},
		`{"PROXY_CONFIG": {"gatewayTopology": {"forwardClientCertDetails": "NOBODY"}}}`:                                                {wrong: true},
	} {
		fields := &structpb.Struct{}
		if err := protojson.Unmarshal([]byte(metadata), fields); err != nil {
			t.Fatal(err)
		}
		n := &core.Node{Id: "router~10.0.0.1~in.infra~infra.svc.cluster.local", Metadata: fields}
		if _, err := topologyOf(n); (err != nil) != want.wrong {
			t.Errorf("%s: %v", metadata, err)
		}
		if node, err := parseNode(n, false); err != nil || node.Topology != want.says {
			t.Errorf("%s: %+v, %v", metadata, node.Topology, err)
		}
	}
}
