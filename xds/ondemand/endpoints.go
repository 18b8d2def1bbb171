package ondemand

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
)

// EndpointsOf is the name of the endpoints that a cluster asks for, whose body is given; "" where it asks for none, or is no cluster.
func EndpointsOf(cluster []byte) string {
	c := &clusterv3.Cluster{}
	if err := proto.Unmarshal(cluster, c); err != nil || c.GetEdsClusterConfig() == nil {
		return "" // Envoy will say what is wrong with it
	}
	if name := c.GetEdsClusterConfig().GetServiceName(); name != "" {
		return name
	}
	return c.GetName()
}
