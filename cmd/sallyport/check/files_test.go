package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sidecar/inject"
)

func TestFiles(t *testing.T) {
	const head = "# a comment\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n"
	for name, tt := range map[string]struct{ file, want string }{
		"nothing to say":  {head + "    spec: {containers: [{name: web, image: web}]}\n", ""},
		"no object":       {"a: 1\n---\n[1, 2]\n---\n", ""},
		"of another kind": {"apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\nspec: {hostNetwork: true}\n", ""},
		"a capability": {
			head + "    spec: {containers: [{name: web, image: web, securityContext: {capabilities: {add: [NET_RAW]}}}]}\n",
			`error web.yaml:3: Deployment default/web: spec.template.spec.containers["web"].securityContext.capabilities.add: "NET_RAW": it can send`,
		},
		"the node's network": {
			"kind: Pod\napiVersion: v1\nmetadata: {name: web, namespace: shop}\nspec: {hostNetwork: true, containers: [{name: web, image: web}]}\n",
			`error web.yaml:1: Pod shop/web: spec.hostNetwork: "true"`,
		},
		"in a CronJob": {
			"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec: {jobTemplate: {spec: {template: {metadata: {labels: {sidecar.istio.io/inject: \"false\"}}, spec: {containers: [{name: x, image: x}]}}}}}\n",
			`error web.yaml:1: CronJob default/nightly: spec.jobTemplate.spec.template.metadata.labels["sidecar.istio.io/inject"]: "false"`,
		},
		"an annotation that is refused": {
			head + "    metadata: {annotations: {traffic.sidecar.istio.io/excludeOutboundPorts: https}}\n    spec: {containers: [{name: web, image: web}]}\n",
			`error web.yaml:3: Deployment default/web: spec.template.metadata.annotations["traffic.sidecar.istio.io/excludeOutboundPorts"]: "https": the injector refuses its pods`,
		},
		"a proxy that is none": {
			head + `    metadata: {annotations: {sidecar.istio.io/status: "{}"}}
    spec:
      initContainers: [{name: istio-init, image: a, args: [init], volumeMounts: [{name: noop, mountPath: /usr/local/bin/sallyport-agent, subPath: sallyport-agent}]}]
      containers: [{name: web, image: web}, {name: istio-proxy, image: a, args: [proxy, sidecar]}]
`,
			`error web.yaml:3: Deployment default/web: spec.template.metadata.annotations["sidecar.istio.io/status"]: "{}": the pod says that it has its proxy already, and its container istio-init is not what this injector makes: noop is mounted at /usr/local/bin/sallyport-agent`,
		},
		"in a list": {
			"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {hostNetwork: true, containers: []}}\n",
			`error web.yaml:1: Pod default/a: spec.hostNetwork`,
		},
		"held by a policy beside it": {
			"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: closed}\nspec: {podSelector: {}, policyTypes: [Egress]}\n---\n" +
				"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {securityContext: {runAsUser: 1337}, containers: [{name: a, image: a}]}\n",
			`warning web.yaml:6: Pod default/a: spec.securityContext.runAsUser: "1337"`,
		},
		"a namespace out of the mesh": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n---\n" + head + "    spec: {hostNetwork: true, containers: []}\n", "",
		},
		"an injector that is ignored": {
			"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: sallyport-injector-istio-system}\nwebhooks: [{name: a, failurePolicy: Ignore}]\n",
			`warning MutatingWebhookConfiguration sallyport-injector-istio-system: webhooks["a"].failurePolicy: "Ignore"`,
		},
		"the control plane's own": {"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: sallyport-node, namespace: istio-system}\nspec: {template: {spec: {hostNetwork: true, containers: []}}}\n", ""},
		"broken":                  {"a: [\n", "error web.yaml:1: the object cannot be read"},
		"of a wrong type":         {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: yes}\n", "error web.yaml:1: the object cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Objects{System: system, Injection: inject.Default()}
			found := o.AddFile("web.yaml", []byte(tt.file), "default")
			var said []string
			for _, f := range append(found, Files(o, now)...) {
				said = append(said, fmt.Sprintf("%s %s: %s", f.Severity, f.Where(), f.What()))
			}
			got := strings.Join(said, "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("want %s\ngot  %s", tt.want, got)
			}
		})
	}
}

// FuzzAddFile: whatever a file holds, it is read and judged without a panic.
func FuzzAddFile(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {hostNetwork: true, containers: [{name: a}]}\n---\n--- {kind: List, items: [{}]}\n"))
	f.Add([]byte("kind: List\napiVersion: v1\nitems: [{kind: List, apiVersion: v1, items: [1]}]\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		o := &Objects{System: system, Injection: inject.Default()}
		o.AddFile("x", data, "default")
		Files(o, now)
	})
}
