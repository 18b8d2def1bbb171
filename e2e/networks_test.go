package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

const twoHost = "two.default.svc.cluster.local"

var (
	twoEast  = netip.MustParseAddr("10.77.0.72")
	twoWest  = netip.MustParseAddr("10.77.0.73")
	eastWest = netip.MustParseAddr("10.77.0.74")
)

// networksObjects are a Service with a pod in each of two networks, and the gateway of one of them.
const networksObjects = `apiVersion: v1
kind: Namespace
metadata: {name: istio-system, labels: {topology.istio.io/network: east}}
---
apiVersion: v1
kind: Service
metadata: {name: istio-eastwestgateway, namespace: istio-system, labels: {topology.istio.io/network: west}}
spec: {clusterIP: 10.96.0.74, externalIPs: [10.77.0.74], selector: {istio: eastwestgateway}, ports: [{name: tls, port: 15443}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: cross-network-gateway, namespace: istio-system}
spec:
  selector: {istio: eastwestgateway}
  servers:
  - {port: {number: 15443, name: tls, protocol: TLS}, tls: {mode: AUTO_PASSTHROUGH}, hosts: ["*.local"]}
---
apiVersion: v1
kind: Service
metadata: {name: two, namespace: default}
spec: {clusterIP: 10.96.0.72, selector: {app: two}, ports: [{name: http, port: 8080, targetPort: 8080}]}
`

func podOfTwo(name, address, labels string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, labels: {app: two, security.istio.io/tlsMode: istio%s}}
spec: {serviceAccountName: two, containers: []}
status: {podIP: %s, phase: Running}
`, name, labels, address)
}

// TestNetworks: a Service's pods in another network are reached by its gateway, with both ends' identities; and when the pods of one
// network leave, those of the other take over without a request lost.
func TestNetworks(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, scene := setScene(t, story.InNamespaces)
	write := func(name, text string) {
		t.Helper()
		if err := scene.Config.Write(name, text); err != nil {
			t.Fatal(err)
		}
	}
	east, west := podOfTwo("two-east", twoEast.String(), ""), podOfTwo("two-west", twoWest.String(), ", topology.istio.io/network: west")
	write("networks.yaml", networksObjects)
	write("two.yaml", east+"---\n"+west)

	setting, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	for name, at := range map[string]netip.Addr{"east": twoEast, "west": twoWest} {
		labels := []string{"app=two"}
		if name == "west" {
			labels = append(labels, "topology.istio.io/network=west")
		}
		pod, err := scene.AddSidecar(setting, "two-"+name, "default", "two", at, labels...)
		if err != nil {
			t.Fatal(err)
		}
		servePages(t, pod.Host(), netip.AddrPortFrom(at, 8080), func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "%s %s", name, r.Header.Get("X-Forwarded-Client-Cert"))
		})
	}
	gateway, err := scene.AddRouter(setting, "eastwest-1", "istio-system", "istio-eastwestgateway-service-account", eastWest, "istio=eastwestgateway", "topology.istio.io/network=west")
	if err != nil {
		t.Fatal(err)
	}

	client := scene.App.Host().HTTPClient()
	service := netip.MustParseAddrPort("10.96.0.72:8080")
	get := func() (string, error) {
		status, body, err := pageOf(t.Context(), client, service, twoHost)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d: %s", status, body)
		}
		return body, err
	}
	seen := map[string]string{}
	err = world.Within(ctx, time.Minute, func() error {
		body, err := get()
		name, peer, _ := strings.Cut(body, " ")
		if seen[name] = peer; err == nil && (seen["east"] == "" || seen["west"] == "") {
			err = fmt.Errorf("only %v answered", seen)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(seen["west"], "URI=spiffe://cluster.local/ns/default/") {
		t.Errorf("the pod in the other network was told of %q", seen["west"])
	}
	if stats, err := gateway.Admin(ctx, "/stats?filter=cluster.outbound_.8080_._.two.*upstream_cx_total"); err != nil || strings.HasSuffix(strings.TrimSpace(string(stats)), " 0") || len(stats) == 0 {
		t.Errorf("nothing went by the gateway: %q, %v", stats, err)
	}

	// the pods of one network leave, under traffic, and come back while those of the other leave
	for _, turn := range []struct{ left, objects string }{{"west", west}, {"east", east}, {"west", west}} {
		write("two.yaml", turn.objects)
		inARow := 0
		err := world.Within(ctx, time.Minute, func() error {
			body, err := get()
			if err != nil {
				t.Errorf("while only %s stays: %v", turn.left, err)
			}
			if inARow++; !strings.HasPrefix(body, turn.left+" ") {
				inARow = 0
			}
			if inARow < 20 {
				return fmt.Errorf("%d answers in a row by %s", inARow, turn.left)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
