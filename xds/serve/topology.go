package serve

import (
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sallyport/sallyport/config/mesh"
)

// topologyOf reads what a proxy says of the proxies in front of it, by its pod's ProxyConfig, as Istio's agents write it. Of what is wrong nothing counts, as if it said nothing: a
// gateway goes on without, and the log says why. It is about this proxy alone: who has its identity has its Envoy, and could have it believe anybody.
func topologyOf(n *core.Node) (mesh.GatewayTopology, error) {
	said := n.GetMetadata().GetFields()[mesh.ProxyConfigVariable].GetStructValue().GetFields()["gatewayTopology"]
	if said == nil {
		return mesh.GatewayTopology{}, nil
	}
	text, err := protojson.Marshal(said)
	if err != nil {
		return mesh.GatewayTopology{}, err
	}
	return mesh.ReadTopology(text)
}
