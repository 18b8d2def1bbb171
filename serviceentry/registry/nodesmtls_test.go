package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// calmPods are pods of an ambient namespace: one without a sidecar, one with, one that is out of the mesh, one on its node's network, and a Service of all.
const calmPods = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: calm}
spec: {clusterIP: 10.0.0.9, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
` + podOf + `
metadata: {name: bare, namespace: calm, labels: {app: web}}
spec: {nodeName: node-1, serviceAccountName: web}
status: {phase: Running, podIP: 10.1.0.1}
---
` + podOf + `
metadata: {name: sidecar, namespace: calm, labels: {app: web, security.istio.io/tlsMode: istio}}
spec: {nodeName: node-1, serviceAccountName: web}
status: {phase: Running, podIP: 10.1.0.2}
---
` + podOf + `
metadata: {name: out, namespace: calm, labels: {app: web, istio.io/dataplane-mode: none}}
spec: {nodeName: node-1, serviceAccountName: web}
status: {phase: Running, podIP: 10.1.0.3}
---
` + podOf + `
metadata: {name: host, namespace: calm, labels: {app: web}}
spec: {nodeName: node-1, serviceAccountName: web, hostNetwork: true}
status: {phase: Running, podIP: 10.1.0.4}
`

const podOf = "apiVersion: v1\nkind: Pod"

// TestStrictPodsWithoutSidecarsAreSpokenToByMutualTLS: clients speak mutual TLS to a pod without a sidecar where its node takes nothing else, and only there; what says so may
// come in any order.
func TestStrictPodsWithoutSidecarsAreSpokenToByMutualTLS(t *testing.T) {
	const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: calm%s}\n"
	ambient := fmt.Sprintf(namespace, ", labels: {istio.io/dataplane-mode: ambient}")
	auth := func(spec string) string {
		return "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: p, namespace: calm}\nspec: {" + spec + "}\n"
	}
	for name, c := range map[string]struct {
		agents          bool
		namespace, auth string
		want            string // addresses that take it at port 8080
	}{
		"nobody asks":             {true, ambient, "", "10.1.0.2"},
		"STRICT":                  {true, ambient, auth("mtls: {mode: STRICT}"), "10.1.0.1 10.1.0.2"},
		"STRICT, and no agents":   {false, ambient, auth("mtls: {mode: STRICT}"), "10.1.0.2"},
		"STRICT, and no label":    {true, fmt.Sprintf(namespace, ""), auth("mtls: {mode: STRICT}"), "10.1.0.2"},
		"PERMISSIVE":              {true, ambient, auth("mtls: {mode: PERMISSIVE}"), "10.1.0.2"},
		"DISABLE":                 {true, ambient, auth("mtls: {mode: DISABLE}"), ""},
		"STRICT at that port":     {true, ambient, auth("selector: {matchLabels: {app: web}}, portLevelMtls: {8080: {mode: STRICT}}"), "10.1.0.1 10.1.0.2"},
		"STRICT at another port":  {true, ambient, auth("selector: {matchLabels: {app: web}}, portLevelMtls: {9090: {mode: STRICT}}"), "10.1.0.2"},
		"STRICT but at that port": {true, ambient, auth("selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}, portLevelMtls: {8080: {mode: PERMISSIVE}}"), "10.1.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range [][]string{{c.namespace, calmPods, c.auth}, {c.auth, calmPods, c.namespace}, {calmPods, c.auth, c.namespace}} {
				cfg := mesh.Default()
				if cfg.AutoMTLS = true; c.agents {
					cfg.NodeAgents = []string{"istio-system/node"}
				}
				r := registry.New(&cfg)
				for _, text := range order { // each for itself
					read := decode.File("a.yaml", []byte(text))
					if len(read.Findings) > 0 {
						t.Fatal(read.Findings)
					}
					for i := range read.Objects {
						r.Apply([]config.Change{{Key: read.Objects[i].Key, Object: &read.Objects[i]}})
					}
				}
				s := r.Snapshot()
				services := s.Services("web.calm.svc.cluster.local")
				if len(services) != 1 {
					t.Fatalf("%d Services", len(services))
				}
				var take []string
				for _, e := range s.EndpointsOf(services[0]) {
					if e.Meshed(8080) {
						take = append(take, e.Address)
					}
				}
				if got := strings.Join(take, " "); got != c.want {
					t.Errorf("mutual TLS is spoken to %q, want %q", got, c.want)
				}
			}
		})
	}
}
