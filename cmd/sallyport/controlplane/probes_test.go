package controlplane

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestStrictProbe: where a probe would come to a port that takes mutual TLS only, that is said, with the object and the port.
func TestStrictProbe(t *testing.T) {
	const strict = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: p, namespace: shop}\nspec: {selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}, portLevelMtls: {9090: {mode: PERMISSIVE}}}\n---\n"
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {app: web}}\nspec: {nodeName: one, containers: [{name: c, ports: [{name: main, containerPort: 8080}], readinessProbe: "
	const native = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {app: web}}\nspec: {nodeName: one, containers: [{name: c}], initContainers: [{name: beside, restartPolicy: Always, "
	for name, c := range map[string]struct {
		objects, want string
		asked         bool // all the same
	}{
		"by a port's name":   {strict + pod + "{httpGet: {port: main}}}]}\n", "PeerAuthentication shop/p lets only mutual TLS in (STRICT), and the kubelet's probes of port 8080", false},
		"gRPC":               {strict + pod + "{grpc: {port: 8081}}}]}\n", "port 8081", false},
		"an open port":       {strict + pod + "{tcpSocket: {port: 9090}}}]}\n", "", true},
		"nothing connected":  {strict + pod + "{exec: {command: [x]}}}]}\n", "", false},
		"a native sidecar":   {strict + native + "startupProbe: {tcpSocket: {port: 8082}}}]}\n", "kubelet's probes of port 8082", false},
		"its hook":           {strict + native + "lifecycle: {postStart: {httpGet: {port: 8083}}}}]}\n", "kubelet's postStart hooks of port 8083", false},
		"as it ends":         {strict + native + "lifecycle: {preStop: {httpGet: {port: 8083}}}}]}\n", "", false},
		"asked elsewhere":    {strict + pod + "{httpGet: {port: 8080, host: 10.0.0.9}}, livenessProbe: {tcpSocket: {port: 8080, host: node}}, lifecycle: {postStart: {httpGet: {port: 8080, host: 10.0.0.9}}}}]}\nstatus: {podIP: 10.0.0.2}\n", "", false},
		"asked by address":   {strict + pod + "{httpGet: {port: 8084, host: 10.0.0.2}}}]}\nstatus: {podIP: 10.0.0.2}\n", "port 8084", false},
		"a hook":             {strict + pod + "{exec: {command: [x]}}, lifecycle: {postStart: {httpGet: {port: main}}}}]}\n", "postStart hooks of port 8080", false},
		"a hook by exec":     {strict + pod + "{exec: {command: [x]}}, lifecycle: {preStop: {exec: {command: [x]}}}}]}\n", "", false},
		"nothing asks of it": {pod + "{httpGet: {port: 8080}}}]}\n", "", true},
	} {
		settings := mesh.Default()
		result := decode.File("objects.yaml", []byte(c.objects))
		for _, f := range result.Findings {
			t.Errorf("%s: %s", name, f)
		}
		var changes []config.Change
		var about *config.Object
		for i := range result.Objects {
			o := &result.Objects[i]
			changes = append(changes, config.Change{Key: o.Key, Object: o})
			if o.Key.Kind == config.KindPod {
				about = o
			}
		}
		s, _ := registry.New(&settings).Apply(changes)
		if ports := probedPorts(about.Spec.(*corev1.Pod)); (len(ports) > 0) != (c.asked || c.want != "") {
			t.Errorf("%s: the kubelet connects to %v", name, ports)
		}
		if got := strictProbe(s, about, about.Spec.(*corev1.Pod)); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
