package serve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
)

// webService is a Service with labels, and its pod.
const webService = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop%s}
spec: {clusterIP: 10.96.0.8, selector: {app: web}, ports: [{name: http, port: 80}]}
`

const webPods = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [10.1.0.20], targetRef: {kind: Pod, namespace: shop, name: web-1}}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}}
spec: {containers: []}
status: {podIP: 10.1.0.20, phase: Running}
`

// otherFront is a second waypoint.
const otherFront = `---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: other, namespace: shop}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: v1
kind: Service
metadata: {name: other, namespace: shop}
spec: {clusterIP: 10.96.0.9, selector: {gateway.networking.k8s.io/gateway-name: other}, ports: [{name: mesh, port: 15008}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: other-1, namespace: shop, labels: {kubernetes.io/service-name: other}}
addressType: IPv4
ports: [{name: mesh, port: 15008}]
endpoints: [{addresses: [10.1.0.10], targetRef: {kind: Pod, namespace: shop, name: other-1}}]
`

const (
	webCluster  = "outbound|80||web.shop.svc.cluster.local"
	byWaypoint  = webCluster + "@waypoint.shop.svc.cluster.local"
	webRow      = "80/web.shop.svc.cluster.local"
	webFrontSNI = "outbound_.80_._.web.shop.svc.cluster.local"
)

// labelled is the Service with a waypoint; "" for none.
func labelled(t *testing.T, waypoint string) *config.Object {
	t.Helper()
	label := ""
	if waypoint != "" {
		label = ", labels: {istio.io/use-waypoint: " + waypoint + "}"
	}
	read := decode.File("web.yaml", fmt.Appendf(nil, webService, label))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	return &read.Objects[0]
}

// comings is a Service that no waypoint stands before, a node that knows it, and a waypoint that does not.
func comings(t *testing.T) (l *lab, front, node *client) {
	t.Helper()
	l, _, front, node = frontsOf(t, frontedObjects+"---\n"+fmt.Sprintf(webService, "")+webPods+otherFront)
	front.follows()
	node.ask(resource.Cluster, "*")
	node.take(resource.Cluster)
	node.ask(resource.Endpoints, webCluster)
	if a := node.take(resource.Endpoints); !a.has(webCluster) {
		t.Fatalf("the node is told of %v", a.names())
	}
	return l, front, node
}

// follows has a waypoint ask for all that it is made of.
func (c *client) follows() {
	c.t.Helper()
	for _, of := range []resource.Type{resource.Cluster, resource.Endpoints, resource.Listener, resource.Route} {
		c.ask(of, "*")
		c.take(of)
	}
}

// ackUntil acknowledges all that a proxy is sent until somebody else hears something, which it gives.
func (c *client) ackUntil(other *client) *discovery.DeltaDiscoveryResponse {
	c.t.Helper()
	for {
		select {
		case resp := <-c.got:
			of, _ := resource.ParseType(resp.GetTypeUrl())
			c.nonce[resp.GetTypeUrl()] = resp.GetNonce()
			c.ack(of)
		case resp := <-other.got:
			other.nonce[resp.GetTypeUrl()] = resp.GetNonce()
			return resp
		case <-time.After(patience):
			c.t.Fatal("nobody hears anything")
		}
	}
}

// acksAll acknowledges all that a proxy was sent by now.
func (c *client) acksAll() {
	c.t.Helper()
	const barrier = "barrier"
	c.ask(resource.Endpoints, barrier)
	for {
		select {
		case resp := <-c.got:
			of, _ := resource.ParseType(resp.GetTypeUrl())
			c.nonce[resp.GetTypeUrl()] = resp.GetNonce()
			c.ack(of)
			if slices.Contains(resp.GetRemovedResources(), barrier) {
				return
			}
		case <-time.After(patience):
			c.t.Fatal("it hears nothing")
		}
	}
}

// isWay holds that a response is the Service's cluster, by a waypoint.
func isWay(t *testing.T, resp *discovery.DeltaDiscoveryResponse, waypoint string) {
	t.Helper()
	a := answered(resp)
	if resp.GetTypeUrl() != resource.Cluster.URL() || !strings.Contains(string(a.values[webCluster]), webFrontSNI) || !strings.Contains(string(a.values[webCluster]), "/sa/"+waypoint) {
		t.Fatalf("the node is told of %s %v, and not of the way by %s", resp.GetTypeUrl(), a.names(), waypoint)
	}
}

// TestServicesWaitForWaypoints: a node goes by a Service's waypoint when that has given its word about all that it does for the Service; and the Service's row follows when the node has the way.
func TestServicesWaitForWaypoints(t *testing.T) {
	serve.SetFrontTime(t, time.Hour)
	l, front, node := comings(t)
	l.apply(labelled(t, "waypoint"))
	node.quiet()
	isWay(t, front.ackUntil(node), "waypoint")
	node.ack(resource.Cluster)
	node.quiet()
	node.ask(resource.Endpoints, byWaypoint) // as Envoy does for what it was given
	if a := node.take(resource.Endpoints); !a.has(byWaypoint) {
		t.Fatalf("of who is there the node is told %v", a.names())
	}
	if a := node.take(resource.VirtualHost); !a.has(webRow) {
		t.Fatalf("the node is told of the rows %v", a.names())
	}
	if a := node.take(resource.Endpoints); !slices.Equal(a.removed, []string{webCluster}) {
		t.Fatalf("of who is past it the node is told %+v", a)
	}

	l.apply(labelled(t, "")) // and past it again, at once: its clusters, and then the row
	if a := node.next(resource.Cluster); !a.has(webCluster) || strings.Contains(string(a.values[webCluster]), webFrontSNI) {
		t.Fatalf("the node is told of %v", a.names())
	}
	if a := node.take(resource.Endpoints); !a.has(webCluster) {
		t.Fatalf("of who is there the node is told %v", a.names())
	}
	node.quiet()
	node.ack(resource.Cluster)
	if a := node.take(resource.VirtualHost); !a.has(webRow) {
		t.Fatalf("the node is told of the rows %v", a.names())
	}
}

// TestServicesWaitForNoSilentWaypoint: one that says nothing is waited for no longer than that, and one that is not connected never.
func TestServicesWaitForNoSilentWaypoint(t *testing.T) {
	serve.SetFrontTime(t, 50*time.Millisecond)
	l, _, node := comings(t)
	l.apply(labelled(t, "other"))
	isWay(t, takeAny(t, node), "other")
	node.ack(resource.Cluster)
	l, front, node := comings(t)
	l.apply(labelled(t, "waypoint"))
	isWay(t, takeAny(t, node), "waypoint") // in the end
	node.ack(resource.Cluster)
	front.stop()
}

// takeAny waits for a response of any type.
func takeAny(t *testing.T, c *client) *discovery.DeltaDiscoveryResponse {
	t.Helper()
	select {
	case resp := <-c.got:
		c.nonce[resp.GetTypeUrl()] = resp.GetNonce()
		return resp
	case <-time.After(patience):
		t.Fatal("nothing came")
		return nil
	}
}

// TestServicesWaitForNoWaypointThatIsGone: nor for one that ends, and what was taken back meanwhile never happened.
func TestServicesWaitForNoWaypointThatIsGone(t *testing.T) {
	serve.SetFrontTime(t, time.Hour)
	l, front, node := comings(t)
	l.apply(labelled(t, "waypoint"))
	node.quiet()
	l.apply(labelled(t, ""))
	node.quiet()
	l.apply(labelled(t, "waypoint"))
	node.quiet()
	front.stop()
	isWay(t, takeAny(t, node), "waypoint")
}

// TestServicesMoveBetweenWaypoints: a node goes by the former waypoint until the other one knows the Service, and that one stays what it is.
func TestServicesMoveBetweenWaypoints(t *testing.T) {
	serve.SetFrontTime(t, time.Hour)
	serve.SetFrontRest(t, time.Hour)
	l, front, node := comings(t)
	l.apply(labelled(t, "other")) // which is not connected
	isWay(t, takeAny(t, node), "other")
	node.ack(resource.Cluster)
	node.ask(resource.Endpoints, webCluster+"@other.shop.svc.cluster.local")
	node.take(resource.Endpoints)
	node.take(resource.VirtualHost)
	node.take(resource.Endpoints) // those past it go
	l.apply(labelled(t, "waypoint"))
	node.quiet()
	isWay(t, front.ackUntil(node), "waypoint")
}

// TestServicesWaitForTheirPods: nor does a node go by a waypoint before all nodes have given their word about what pods take from now on.
func TestServicesWaitForTheirPods(t *testing.T) {
	serve.SetFrontTime(t, time.Hour)
	l, front, node := comings(t)
	var pods []ambient.Pod
	l.cache.FollowPods(func(string) []ambient.Pod { return slices.Clone(pods) })
	at := l.connect(&core.Node{Id: "ztunnel~10.0.0.2~n.istio-system~istio-system.svc.cluster.local"})
	at.ask(resource.Pod, "*")
	at.take(resource.Pod)
	pods = []ambient.Pod{{In: true, Namespace: "shop", Name: "web-1", Templates: map[string][]byte{ambient.PodInbound: {1}}}}
	l.apply(labelled(t, "waypoint"))
	if a := at.next(resource.Pod); !a.has("shop/web-1") {
		t.Fatalf("the node of pods is told of %v", a.names())
	}
	front.acksAll()
	node.quiet()
	at.ack(resource.Pod)
	isWay(t, takeAny(t, node), "waypoint")
}
