package story

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/sallyport/sallyport/e2e/world"
)

// ambient is a node whose pods have no sidecars: the story's application, and a Service's with a waypoint before it.
type ambient struct {
	node     *Node
	web      *world.Host
	waypoint *Pod
}

// The node and its pods, which are all of one namespace.
var (
	ambientNodeAddr     = netip.MustParseAddr("10.77.0.60")
	ambientAppAddr      = netip.MustParseAddr("10.77.0.61")
	ambientWebAddr      = netip.MustParseAddr("10.77.0.62")
	ambientWaypointAddr = netip.MustParseAddr("10.77.0.65")
	ambientNextAddr     = netip.MustParseAddr("10.77.0.67")
)

const (
	ambientPrincipal = "spiffe://cluster.local/ns/calm/sa/app"
	webHost          = "web.calm.svc.cluster.local"
	webVIP           = "10.96.0.77"
	webPort          = 8080
)

// ambientMesh is what a user writes: two labels of the namespace, and a waypoint with a policy.
const ambientMesh = `apiVersion: v1
kind: Namespace
metadata: {name: calm, labels: {istio.io/dataplane-mode: ambient, istio.io/use-waypoint: waypoint}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: calm}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: reading, namespace: calm}
spec:
  targetRefs: [{kind: Service, name: web}]
  action: DENY
  rules: [{to: [{operation: {methods: [DELETE], ports: ["80"]}}]}]
`

// ambientPods are what a cluster has of them, and of the waypoint's Service, which Sallyport makes there.
var ambientPods = fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: app-1, namespace: calm, labels: {app: app}}
spec: {serviceAccountName: app, nodeName: node-1, containers: []}
status: {podIP: %[1]s, phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: calm, labels: {app: web}}
spec: {serviceAccountName: web, nodeName: node-1, containers: []}
status: {podIP: %[2]s, phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: waypoint-1, namespace: calm, labels: {gateway.networking.k8s.io/gateway-name: waypoint, istio.io/dataplane-mode: none}}
spec: {serviceAccountName: waypoint, containers: []}
status: {podIP: %[3]s, phase: Running}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: calm}
spec: {clusterIP: %[5]s, selector: {app: web}, ports: [{name: http, port: 80, targetPort: %[4]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: calm, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: %[4]d}]
endpoints: [{addresses: [%[2]s], targetRef: {kind: Pod, namespace: calm, name: web-1}}]
---
apiVersion: v1
kind: Service
metadata: {name: waypoint, namespace: calm}
spec: {clusterIP: 10.96.0.76, selector: {gateway.networking.k8s.io/gateway-name: waypoint}, ports: [{name: mesh, port: 15008}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: waypoint-1, namespace: calm, labels: {kubernetes.io/service-name: waypoint}}
addressType: IPv4
ports: [{name: mesh, port: 15008}]
endpoints: [{addresses: [%[3]s], targetRef: {kind: Pod, namespace: calm, name: waypoint-1}}]
`, ambientAppAddr, ambientWebAddr, ambientWaypointAddr, webPort, webVIP)

// InAmbient is InNamespaces with a node whose pods have no sidecars. The story's application is one of them.
func InAmbient(ctx context.Context, run *world.Run, programs Programs) (*Scene, error) {
	s, err := inNamespaces(ctx, run, programs)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.Config.Write("ambient.yaml", ambientMesh), s.Config.Write("ambient-pods.yaml", ambientPods)); err != nil {
		return nil, err
	}
	a := &ambient{}
	if a.node, err = s.AddNode(ctx, "node-1", ambientNodeAddr); err != nil {
		return nil, err
	}
	s.app = appPod{addr: ambientAppAddr, ns: "calm", principal: ambientPrincipal}
	if s.app.host, err = s.World.AddPod("calm-app", ambientAppAddr); err != nil {
		return nil, err
	}
	if a.web, err = s.World.AddPod("calm-web", ambientWebAddr); err != nil {
		return nil, err
	}
	if err := s.serveWeb(a.web); err != nil {
		return nil, err
	}
	if err := errors.Join(a.node.Tell(ctx, "add", "calm/app-1", s.app.host), a.node.Tell(ctx, "add", "calm/web-1", a.web)); err != nil {
		return nil, err
	}
	if a.waypoint, err = s.AddWaypoint(ctx, "waypoint-1", "calm", "waypoint", ambientWaypointAddr, "gateway.networking.k8s.io/gateway-name=waypoint"); err != nil {
		return nil, err
	}
	s.ambient = a
	return s, nil
}

// serveWeb serves the Service's page in its pod: who asked, and how.
func (s *Scene) serveWeb(at *world.Host) error {
	l, err := at.Listen(netip.AddrPortFrom(ambientWebAddr, webPort).String())
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s by %s", r.Method, r.RemoteAddr)
	})}
	s.Run.OnClose(server.Close)
	go func() { _ = server.Serve(l) }()
	return nil
}

// up starts what a step may have ended.
func (a *ambient) up(ctx context.Context) error {
	if a.node.Process == nil {
		if err := a.node.Up(ctx); err != nil {
			return err
		}
	}
	return a.waypoint.up(ctx)
}
