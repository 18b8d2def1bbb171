package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// halfDead is a Service of two endpoints, by the balancers there are.
const halfDead = `
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec: {clusterIP: %[2]s, selector: {app: half}, ports: [{name: http, port: 8080, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, namespace: default, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [%[3]s], conditions: {ready: true}}
- {addresses: [%[4]s], conditions: {ready: true}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %[1]s, namespace: default}
spec: {host: %[1]s.default.svc.cluster.local, trafficPolicy: {loadBalancer: {simple: %[5]s}}}
`

// TestRetriesGoElsewhere: where one of two endpoints takes no connections, no request fails, since it is tried at the other one.
//
// By chance one fails less than once in 10^9 (two retries, each of which would have to draw the dead one sixteen times).
func TestRetriesGoElsewhere(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, scene := setScene(t, story.InNamespaces)
	var at []netip.Addr
	for i := range 2 {
		at = append(at, netip.AddrFrom4([4]byte{10, 77, 0, byte(95 + i)}))
		host, err := scene.World.AddPod(fmt.Sprintf("half-%d", i), at[i])
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			servePages(t, host, netip.AddrPortFrom(at[i], 8080), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
		}
	}
	services := map[string]netip.Addr{"RANDOM": netip.MustParseAddr("10.96.0.101"), "LEAST_REQUEST": netip.MustParseAddr("10.96.0.102"), "ROUND_ROBIN": netip.MustParseAddr("10.96.0.103")}
	objects := ""
	for balancer, address := range services {
		objects += fmt.Sprintf(halfDead, "half"+address.String()[len("10.96.0."):], address, at[0], at[1], balancer)
	}
	if err := scene.Config.Write("half.yaml", objects); err != nil {
		t.Fatal(err)
	}
	for balancer, address := range services {
		to, host := netip.AddrPortFrom(address, 8080), fmt.Sprintf("half%s.default.svc.cluster.local", address.String()[len("10.96.0."):])
		client := scene.World.App.HTTPClient()
		if err := world.Within(ctx, 2*time.Minute, func() error {
			status, body, err := pageOf(ctx, client, to, host)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%d: %s", status, body)
			}
			return err
		}); err != nil {
			t.Fatalf("%s: %v", balancer, err)
		}
		failed := 0
		for range 300 {
			status, body, err := pageOf(ctx, client, to, host)
			if err != nil || status != http.StatusOK || body != "here" {
				if failed++; failed == 1 {
					t.Errorf("%s: %d %s %v", balancer, status, body, err)
				}
			}
		}
		if failed > 0 {
			t.Errorf("%s: %d of 300 requests failed", balancer, failed)
		}
		client.CloseIdleConnections()
	}
}
