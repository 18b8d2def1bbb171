package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

const nearHost = "near.default.svc.cluster.local"

const localityService = `apiVersion: v1
kind: Service
metadata: {name: near, namespace: default}
spec: {clusterIP: 10.96.0.81, selector: {app: near}, ports: [{name: http, port: 8080, targetPort: 8080}]}
`

func localityRule(policy string) string {
	return `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: near, namespace: default}
spec: {host: ` + nearHost + `, trafficPolicy: ` + policy + `}
`
}

// TestLocality: requests go to the endpoint in the client's zone, to others while that one fails, and back; and are shared as a rule says.
func TestLocality(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, scene := setScene(t, story.InNamespaces)
	write := func(name, text string) {
		t.Helper()
		if err := scene.Config.Write(name, text); err != nil {
			t.Fatal(err)
		}
	}
	setting, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	fails := map[string]*atomic.Bool{}
	pods := localityService
	for i, place := range []string{"r1.z1", "r1.z2", "r2.z1"} {
		address, down := netip.AddrFrom4([4]byte{10, 77, 0, byte(81 + i)}), &atomic.Bool{}
		fails[place] = down
		pods += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: near-%d, namespace: default, labels: {app: near, istio-locality: %s, security.istio.io/tlsMode: istio}}\nspec: {serviceAccountName: near, containers: []}\nstatus: {podIP: %s, phase: Running}\n", i, place, address)
		pod, err := scene.AddSidecar(setting, fmt.Sprintf("near-%d", i), "default", "near", address, "app=near", "istio-locality="+place)
		if err != nil {
			t.Fatal(err)
		}
		servePages(t, pod.Host(), netip.AddrPortFrom(address, 8080), func(w http.ResponseWriter, _ *http.Request) {
			if down.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = io.WriteString(w, place)
		})
	}
	write("locality.yaml", pods)
	const ejects = "outlierDetection: {consecutive5xxErrors: 1, interval: 1s, baseEjectionTime: 1s, maxEjectionPercent: 100}"
	write("rule.yaml", localityRule("{"+ejects+"}"))
	client, err := scene.AddSidecar(setting, "near-client", "default", "client", netip.AddrFrom4([4]byte{10, 77, 0, 84}), "app=client", "istio-locality=r1.z1")
	if err != nil {
		t.Fatal(err)
	}
	agent := client.Host().HTTPClient()
	service := netip.MustParseAddrPort("10.96.0.81:8080")
	// answers waits until so many answers in a row are as they should be.
	answers := func(what string, fits func(seen map[string]int) bool) {
		t.Helper()
		const inARow = 30
		err := world.Within(ctx, 3*time.Minute, func() error {
			seen := map[string]int{}
			for range inARow {
				_, body, err := pageOf(ctx, agent, service, nearHost)
				if err != nil {
					return err
				}
				seen[body]++
			}
			if !fits(seen) {
				return fmt.Errorf("%s: %v answered", what, seen)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	only := func(place string) func(map[string]int) bool {
		return func(seen map[string]int) bool { return len(seen) == 1 && seen[place] > 0 }
	}
	answers("all are well", only("r1.z1"))
	fails["r1.z1"].Store(true)
	// what fails is tried again each second: an answer of it may be among many
	answers("the nearest fails", func(seen map[string]int) bool { return seen["r1.z2"] > 20 && seen["r2.z1"] == 0 })
	fails["r1.z2"].Store(true)
	answers("the region fails", func(seen map[string]int) bool { return seen["r2.z1"] > 20 })
	fails["r1.z1"].Store(false)
	fails["r1.z2"].Store(false)
	answers("all are well again", only("r1.z1"))
	write("rule.yaml", localityRule(`{loadBalancer: {localityLbSetting: {distribute: [{from: "r1/z1/*", to: {"r1/z2/*": 50, "r2/*": 50}}]}}}`))
	answers("shares", func(seen map[string]int) bool { return seen["r1.z1"] == 0 && seen["r1.z2"] > 5 && seen["r2.z1"] > 5 })
	write("rule.yaml", localityRule("{loadBalancer: {simple: ROUND_ROBIN}}"))
	answers("no setting", func(seen map[string]int) bool { return len(seen) == 3 })
	// nobody says where anything is, and a client's requests go to one endpoint
	write("locality.yaml", strings.NewReplacer("istio-locality: r1.z1, ", "", "istio-locality: r1.z2, ", "", "istio-locality: r2.z1, ", "").Replace(pods))
	write("rule.yaml", localityRule("{"+ejects+", loadBalancer: {consistentHash: {httpHeaderName: x-user}}}"))
	answers("no places", func(seen map[string]int) bool { return seen["r1.z1"]+seen["r1.z2"]+seen["r2.z1"] == 30 })
}
