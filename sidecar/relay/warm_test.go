package relay

import (
	"context"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestEndpointsFollowClustersAskedFor holds that Envoy is sent endpoints that it has once more when it has taken a cluster that waits for them: the controller's own answer
// may have come before that cluster.
func TestEndpointsFollowClustersAskedFor(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.controllerOpen()
	b.subscribe(EndpointType, "a", "b", "later")
	b.controllerSays(EndpointType, "n1", nil, res("a", "1"), res("b", "1"))
	b.ack(EndpointType)
	b.sent()
	b.told()
	hold := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, b.sent()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	b.warm([]string{"a"})
	hold("what Envoy has", "+a@1")
	b.ack(EndpointType)
	b.warm([]string{"later", "never"})
	hold("what Envoy does not have comes when it does")
	b.controllerSays(EndpointType, "n2", nil, res("a", "2"))
	b.sent()
	b.warm([]string{"a", "b"})
	hold("what is under way, and not what it replaces", "+a@2 +b@1")
	b.ack(EndpointType)
	b.told()
	b.kind(EndpointType).table.Remove("b")
	b.warm([]string{"b"})
	hold("what has no body here")
	if diff := cmp.Diff([]string{"ClusterLoadAssignment +b"}, b.told()); diff != "" {
		t.Errorf("the controller is asked for it again (-want +got):\n%s", diff)
	}
}

// TestClustersAskedForNameTheirEndpoints holds that Envoy's word about a cluster, and no refusal, has its endpoints follow.
func TestClustersAskedForNameTheirEndpoints(t *testing.T) {
	o, d := shelf()
	body := func(c *clusterv3.Cluster) *discoveryv3.Resource {
		value, err := anypb.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return &discoveryv3.Resource{Name: c.Name, Version: "1", Resource: value}
	}
	bodies := map[string]*discoveryv3.Resource{
		"own":   body(&clusterv3.Cluster{Name: "own", EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{}}),
		"other": body(&clusterv3.Cluster{Name: "other", EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: "endpoints"}}),
		"none":  body(&clusterv3.Cluster{Name: "none"}),
	}
	o.body = func(_ context.Context, name string) (*discoveryv3.Resource, error) { return bodies[name], nil }
	change(o, map[string]string{"own": "1", "other": "1", "none": "1"})
	asked := func(name string) string {
		t.Helper()
		d.request(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{name}})
		resp, err := d.response(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetNonce()
	}
	for name, want := range map[string][]string{"own": {"own"}, "other": {"endpoints"}, "none": nil} {
		word := &discoveryv3.DeltaDiscoveryRequest{ResponseNonce: asked(name)}
		if diff := cmp.Diff(want, d.request(word)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if again := d.request(word); again != nil {
			t.Errorf("%s: Envoy's word counts once: %v", name, again)
		}
	}
	if refused := d.request(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: asked("own"), ErrorDetail: &statuspb.Status{Message: "bad"}}); refused != nil {
		t.Errorf("a cluster that Envoy refuses waits for nothing: %v", refused)
	}
}
