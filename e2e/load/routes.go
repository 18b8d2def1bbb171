package load

import (
	"fmt"
	"os"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// ingressObjects are a Gateway for all names, and what its routes lead to.
const ingressObjects = `apiVersion: v1
kind: Service
metadata: {name: public-sallyport, namespace: ingress}
spec: {selector: {gateway.networking.k8s.io/gateway-name: public}, clusterIP: 10.251.0.2, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: ingress}
spec:
  gatewayClassName: sallyport
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
`

// ingress is the node of a pod of that Gateway.
func ingress(i int) *core.Node {
	return node("router", fmt.Sprintf("10.252.%d.%d", i/250, 1+i%250), fmt.Sprintf("public-%d", i), "ingress",
		map[string]any{"LABELS": map[string]any{"gateway.networking.k8s.io/gateway-name": "public"}})
}

// writeRoutes fills a directory with HTTPRoutes of one Gateway, each for a name of its own.
func (m mesh) writeRoutes(o Options) error {
	if err := os.WriteFile(m.named("ingress"), []byte(ingressObjects), 0o644); err != nil {
		return err
	}
	if err := m.writeWebs(); err != nil {
		return err
	}
	for i := range o.Entries {
		name := fmt.Sprintf("route-%d", i)
		if err := os.WriteFile(m.named(name), []byte(route(name, namespace(i), fmt.Sprintf("www.shop-%d.example.com", i), 80)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeWebs writes what routes lead to, one in each namespace.
func (m mesh) writeWebs() error {
	for i := range namespaces {
		text := fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: %s}\nspec: {clusterIP: 10.200.0.%d, ports: [{name: http, port: 80}, {name: other, port: 81}]}\n", namespace(i), 1+i)
		if err := os.WriteFile(m.named(namespace(i)+".web"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func route(name, ns, host string, port int) string {
	return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: %s, namespace: %s}\n"+
		"spec:\n  parentRefs: [{name: public, namespace: ingress}]\n  hostnames: [%s]\n  rules: [{backendRefs: [{name: web, port: %d}]}]\n", name, ns, host, port)
}

// routeSteps has a route come, lead elsewhere, and go.
func (m mesh) routeSteps(round int) []step {
	name, host := fmt.Sprintf("new-%d", round), fmt.Sprintf("new-%d.load.example.org", round)
	put := func(port int) func() error {
		return func() error { return replace(m.named(name), route(name, namespace(0), host, port)) }
	}
	return []step{{"added", host, put(80), nil}, {"changed", host, put(81), nil}, {"removed", host, func() error { return os.Remove(m.named(name)) }, nil}}
}
