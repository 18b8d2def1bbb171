package registry_test

import (
	"testing"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestAppProtocol: what a Service's port says of its protocol comes before its name.
func TestAppProtocol(t *testing.T) {
	for name, want := range map[string]registry.Protocol{
		"http": registry.HTTP, "https": registry.TLS, "grpc": registry.HTTP2, "tcp": registry.TCP, "example.com/own": registry.TCP,
		"kubernetes.io/h2c": registry.HTTP2, "kubernetes.io/ws": registry.HTTP, "kubernetes.io/wss": registry.TLS,
	} {
		w := newWorld(t)
		w.apply("apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {clusterIP: 10.0.0.1, ports: [{name: mysql-x, port: 80, appProtocol: " + name + "}]}\n")
		k, ok := w.Snapshot().KubeService(registry.Ref{Namespace: "shop", Name: "web"})
		if !ok || k.Ports[0].Protocol != want {
			t.Errorf("appProtocol %s: %v, want %v", name, k, want)
		}
	}
}
