package serve_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
	"github.com/sallyport/sallyport/xds/translate"
)

const frontedObjects = `
apiVersion: v1
kind: Node
metadata: {name: node-1}
spec: {podCIDR: 10.1.0.0/24}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio.io/dataplane-mode: ambient}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: shop, labels: {istio.io/waypoint-for: all}}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: v1
kind: Service
metadata: {name: waypoint, namespace: shop}
spec: {clusterIP: 10.96.0.7, selector: {gateway.networking.k8s.io/gateway-name: waypoint}, ports: [{name: mesh, port: 15008}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: waypoint-1, namespace: shop, labels: {kubernetes.io/service-name: waypoint}}
addressType: IPv4
ports: [{name: mesh, port: 15008}]
endpoints: [{addresses: [10.1.0.9], targetRef: {kind: Pod, namespace: shop, name: waypoint-1}}]
---
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: shop, labels: {istio.io/use-waypoint: waypoint}}
spec: {containers: []}
status: {podIP: 10.1.0.2, phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: second, namespace: shop, labels: {istio.io/use-waypoint: waypoint}}
spec: {containers: []}
status: {podIP: 10.1.0.3, phase: Running}
`

// fronts is a node and a waypoint, which know of the first pod; the second one may come.
func fronts(t *testing.T) (l *lab, second *config.Object, front, onNode *client) {
	t.Helper()
	return frontsOf(t, frontedObjects)
}

// frontsOf is fronts with other objects.
func frontsOf(t *testing.T, text string) (l *lab, second *config.Object, front, onNode *client) {
	t.Helper()
	read := decode.File("fronted.yaml", []byte(text))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	var objects []*config.Object
	for i := range read.Objects {
		o := &read.Objects[i]
		if o.Name == "second" {
			second = o
			continue
		}
		objects = append(objects, o)
	}
	l = newLab(t, func(_ context.Context, n translate.Node) (translate.Node, error) {
		if n.IsAmbient() {
			n.On = "node-1"
		}
		return n, nil
	}, objects...)
	l.cache.FollowPods(func(string) []ambient.Pod { return nil })
	at := node("waypoint-1", "shop", "gateway.networking.k8s.io/gateway-name", "waypoint")
	at.Id = "waypoint~10.1.0.9~waypoint-1.shop~shop.svc.cluster.local"
	front, onNode = l.connect(at), l.connect(&core.Node{Id: "ztunnel~10.0.0.1~n.istio-system~istio-system.svc.cluster.local"})
	for c, row := range map[*client]string{front: "inbound-pods/10.1.0.2", onNode: "pods/10.1.0.2"} {
		c.ask(resource.VirtualHost, "*")
		if a := c.take(resource.VirtualHost); !a.has(row) {
			t.Fatalf("%s is not among %v", row, a.names())
		}
	}
	return l, second, front, onNode
}

// TestRowsWaitForWaypoints: a node is told that something goes by a waypoint when that knows what for, and has said so.
func TestRowsWaitForWaypoints(t *testing.T) {
	l, second, front, node := fronts(t)
	l.apply(second)
	if a := front.next(resource.VirtualHost); !slices.Equal(a.names(), []string{"inbound-pods/10.1.0.3"}) {
		t.Fatalf("the waypoint is told of %v", a.names())
	}
	node.quiet()
	front.ack(resource.VirtualHost)
	if a := node.take(resource.VirtualHost); !slices.Equal(a.names(), []string{"pods/10.1.0.3"}) {
		t.Fatalf("the node is told of %v", a.names())
	}
}

// TestOtherRowsWaitForNoWaypoint: nor do they for one that has gone.
func TestOtherRowsWaitForNoWaypoint(t *testing.T) {
	l, second, front, node := fronts(t)
	l.apply(second)
	front.next(resource.VirtualHost)
	node.quiet()
	front.stop()
	node.take(resource.VirtualHost)
	l.remove(second)
	if a := node.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"pods/10.1.0.3"}) {
		t.Fatalf("the node is told of %+v", a)
	}
}

// TestSilentWaypoint: one that says nothing is waited for once, and again when it has spoken.
func TestSilentWaypoint(t *testing.T) {
	serve.SetFrontTime(t, 50*time.Millisecond)
	l, second, front, node := fronts(t)
	l.apply(second)
	front.next(resource.VirtualHost)
	node.take(resource.VirtualHost) // in the end
	serve.SetFrontTime(t, time.Hour)
	l.remove(second)
	node.take(resource.VirtualHost)
	l.apply(second)
	node.take(resource.VirtualHost) // at once
	front.ack(resource.VirtualHost)
	l.remove(second)
	node.take(resource.VirtualHost)
}

// TestRowsStayAtWaypoints: a pod's row stays at its waypoint for a while, for nodes that have not heard that it has none any more; and for good when it comes back.
func TestRowsStayAtWaypoints(t *testing.T) {
	serve.SetFrontRest(t, time.Hour)
	l, second, front, node := fronts(t)
	l.apply(second)
	front.take(resource.VirtualHost)
	node.take(resource.VirtualHost)
	l.remove(second)
	if a := node.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"pods/10.1.0.3"}) {
		t.Fatalf("the node is told of %+v", a)
	}
	front.quiet()
	l.apply(second)
	node.take(resource.VirtualHost)
	front.quiet() // it has it
	serve.SetFrontRest(t, 50*time.Millisecond)
	l.remove(second)
	if a := front.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"inbound-pods/10.1.0.3"}) {
		t.Fatalf("the waypoint is told of %+v", a)
	}
}

// TestWaypointsStayWhatTheyAre: when the last pod leaves a waypoint, or that is for Services alone from now on, nodes hear of it later: its chains, its tables and its way to pods stay as they were.
func TestWaypointsStayWhatTheyAre(t *testing.T) {
	serve.SetFrontRest(t, time.Hour)
	gateway := func(what string) string {
		return "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: waypoint, namespace: shop, labels: {istio.io/waypoint-for: " + what + "}}\nspec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}\n"
	}
	pod := func(label string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: first, namespace: shop" + label + "}\nspec: {containers: []}\nstatus: {podIP: 10.1.0.2, phase: Running}\n"
	}
	const labelled = ", labels: {istio.io/use-waypoint: waypoint}"
	l, _, front, node := fronts(t)
	types := []resource.Type{resource.Cluster, resource.Endpoints, resource.Listener, resource.Route}
	for _, of := range types {
		front.ask(of, "*")
		front.take(of)
	}
	for _, step := range []struct {
		what, text  string
		gone, again bool // for the node; the waypoint is told again
	}{
		{"it is for Services alone", gateway("service"), true, false},
		{"it is for all", gateway("all"), false, true},
		{"the pod leaves", pod(""), true, false},
		{"the pod comes back", pod(labelled), false, false},
		{"it is for nothing", gateway("none"), true, false},
		{"it is for workloads", gateway("workload"), false, true},
	} {
		read := decode.File("step.yaml", []byte(step.text))
		if len(read.Findings) > 0 {
			t.Fatal(read.Findings)
		}
		l.apply(&read.Objects[0])
		if step.again {
			front.take(resource.VirtualHost) // the row again
		}
		a := node.take(resource.VirtualHost)
		if row := "pods/10.1.0.2"; step.gone != slices.Contains(a.removed, row) || step.gone == a.has(row) {
			t.Errorf("%s: the node is told of %v, without %v", step.what, a.names(), a.removed)
		}
		front.quiet()
	}
}

// sharedFront are a Service, and a pod of another namespace, that ask for the waypoint.
const sharedFront = `---
apiVersion: v1
kind: Namespace
metadata: {name: other, labels: {istio.io/dataplane-mode: ambient}}
---
apiVersion: v1
kind: Pod
metadata: {name: third, namespace: other%[1]s}
spec: {containers: []}
status: {podIP: 10.1.0.4, phase: Running}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop%[2]s}
spec: {clusterIP: 10.96.0.8, selector: {app: web}, ports: [{name: http, port: 80}, {name: tcp-other, port: 5432}]}
`

// TestWhatLeavesWaypointsStays: when a Service, or the last pod of another namespace, leaves a waypoint, nodes hear of it later: for a while the waypoint is what it was, with the Service's chains
// and its way to pods of that namespace.
func TestWhatLeavesWaypointsStays(t *testing.T) {
	const byPod, byService = ", labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: shop}", ", labels: {istio.io/use-waypoint: waypoint}"
	open := strings.Replace(frontedObjects, "protocol: HBONE}", "protocol: HBONE, allowedRoutes: {namespaces: {from: All}}}", 1)
	objects := func(pod, service string) []*config.Object {
		read := decode.File("shared.yaml", []byte(fmt.Sprintf(sharedFront, pod, service)))
		if len(read.Findings) > 0 {
			t.Fatal(read.Findings)
		}
		var out []*config.Object
		for i := range read.Objects {
			out = append(out, &read.Objects[i])
		}
		return out
	}
	serve.SetFrontRest(t, time.Hour)
	l, _, front, node := frontsOf(t, open+fmt.Sprintf(sharedFront, byPod, byService))
	types := []resource.Type{resource.Cluster, resource.Endpoints, resource.Listener, resource.Route}
	has := map[resource.Type]answer{}
	for _, of := range types {
		front.ask(of, "*")
		has[of] = front.take(of)
	}
	if cluster := string(has[resource.Cluster].values["inbound-pods"]); !strings.Contains(cluster, "/ns/other/") {
		t.Fatalf("the way to pods knows no other namespace: %q", cluster)
	}
	if listener := string(has[resource.Listener].values["connect_terminate"]); !strings.Contains(listener, "web.shop") {
		t.Fatal("there is no chain for the Service")
	}
	l.apply(objects("", byService)...)
	if a := node.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"pods/10.1.0.4"}) {
		t.Fatalf("the node is told of %+v", a)
	}
	front.quiet()
	l.apply(objects("", "")...)
	front.quiet()
	l.apply(objects(byPod, byService)...) // they come back
	front.quiet()
	serve.SetFrontRest(t, 50*time.Millisecond)
	l.apply(objects("", "")...)
	for left := map[resource.Type]bool{resource.Cluster: true, resource.Listener: true}; len(left) > 0; {
		select {
		case resp := <-front.got:
			of, _ := resource.ParseType(resp.TypeUrl)
			front.nonce[resp.TypeUrl] = resp.Nonce
			front.ack(of)
			delete(left, of)
		case <-time.After(time.Minute):
			t.Fatalf("the waypoint was never told: %v", left)
		}
	}
}

// wayToPods is the cluster of the waypoint at a node.
const wayToPods = "outbound|15008|pods.|waypoint.shop.svc.cluster.local"

// waypointFor is the waypoint's Gateway where it is for something.
func waypointFor(t *testing.T, what string) *config.Object {
	t.Helper()
	read := decode.File("gateway.yaml", []byte("apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: waypoint, namespace: shop, labels: {istio.io/waypoint-for: "+what+"}}\n"+
		"spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}\n"))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	return &read.Objects[0]
}

// TestWaysStayAtNodes: when nothing goes by a waypoint any more, the node keeps the way to it for a while: what asked before the row went is on its way there. It goes in the end.
func TestWaysStayAtNodes(t *testing.T) {
	serve.SetFrontRest(t, time.Hour)
	l, _, front, node := fronts(t)
	const way = wayToPods
	node.ask(resource.Endpoints, way)
	node.take(resource.Endpoints)
	node.ask(resource.Cluster, "*")
	if a := node.take(resource.Cluster); !a.has(way) {
		t.Fatalf("%s is not among %v", way, a.names())
	}
	for _, rest := range []time.Duration{time.Hour, 50 * time.Millisecond} {
		serve.SetFrontRest(t, rest)
		l.apply(waypointFor(t, "none"))
		if a := node.take(resource.VirtualHost); !slices.Equal(a.removed, []string{"pods/10.1.0.2"}) {
			t.Fatalf("the node is told of %+v", a)
		}
		if rest < time.Hour {
			break
		}
		node.quiet()
		l.apply(waypointFor(t, "all"))
		front.take(resource.VirtualHost)
		node.take(resource.Cluster) // the same again
		node.take(resource.Endpoints)
		if a := node.take(resource.VirtualHost); !a.has("pods/10.1.0.2") {
			t.Fatalf("the node is told of %v", a.names())
		}
		node.quiet() // its word is heard: the row does not wait for that, which the way would not
	}
	if a := node.take(resource.Cluster); !slices.Equal(a.removed, []string{way}) {
		t.Fatalf("of the way the node is told %+v", a)
	}
}

// TestRowsWaitForTheirWays: a node's Envoy has the way to a waypoint before a row leads there, and not only its agent.
func TestRowsWaitForTheirWays(t *testing.T) {
	serve.SetFrontRest(t, time.Millisecond)
	serve.SetFrontTime(t, time.Hour)
	l, _, front, node := fronts(t)
	const way = wayToPods
	node.ask(resource.Cluster, "*")
	node.take(resource.Cluster)
	l.apply(waypointFor(t, "none"))
	node.take(resource.VirtualHost)
	if a := node.take(resource.Cluster); !slices.Equal(a.removed, []string{way}) {
		t.Fatalf("of the way the node is told %+v", a)
	}
	front.take(resource.VirtualHost)
	l.apply(waypointFor(t, "all"))
	front.take(resource.VirtualHost)
	front.quiet() // it was heard
	if a := node.next(resource.Cluster); !a.has(way) {
		t.Fatalf("of the way the node is told %v", a.names())
	}
	node.quiet()
	node.ack(resource.Cluster)
	node.quiet()
	node.ask(resource.Endpoints, way) // as Envoy does for what it was given
	if a := node.take(resource.Endpoints); !a.has(way) {
		t.Fatalf("of who is there the node is told %v", a.names())
	}
	if a := node.take(resource.VirtualHost); !a.has("pods/10.1.0.2") {
		t.Fatalf("the node is told of %v", a.names())
	}
}
