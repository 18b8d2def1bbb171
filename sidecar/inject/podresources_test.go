package inject

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestWithinPodResources: containers ask for no more than the pod does, and what an annotation asks for beyond it is refused.
func TestWithinPodResources(t *testing.T) {
	for what, c := range map[string]struct{ pod, settings, want, refused string }{
		"nothing said":           {pod: `{spec: {containers: [{name: a}]}}`, want: `{limits: {cpu: "2", memory: 1Gi}, requests: {cpu: 100m, memory: 128Mi}}`},
		"room for all":           {pod: `{spec: {resources: {limits: {cpu: "8"}, requests: {cpu: "4"}}, containers: [{name: a}]}}`, want: `{limits: {cpu: "2", memory: 1Gi}, requests: {cpu: 100m, memory: 128Mi}}`},
		"a lower limit":          {pod: `{spec: {resources: {limits: {cpu: "1"}, requests: {cpu: "1"}}, containers: [{name: a}]}}`, want: `{limits: {cpu: "1", memory: 1Gi}, requests: {cpu: 100m, memory: 128Mi}}`},
		"a limit below requests": {pod: `{spec: {resources: {limits: {cpu: 20m}}, containers: [{name: a}]}}`, want: `{limits: {cpu: 20m, memory: 1Gi}, requests: {cpu: 20m, memory: 128Mi}}`},
		"nothing is left":        {pod: `{spec: {resources: {limits: {cpu: "1"}, requests: {cpu: 50m}}, containers: [{name: a, resources: {requests: {cpu: 50m}}}]}}`, want: `{limits: {cpu: "1", memory: 1Gi}, requests: {cpu: "0", memory: 128Mi}}`},
		"limits stand for requests": {
			pod:  `{spec: {resources: {requests: {memory: 1Gi}}, initContainers: [{name: i, restartPolicy: Always, resources: {limits: {memory: 512Mi}}}], containers: [{name: a, resources: {limits: {memory: 448Mi}}}]}}`,
			want: `{limits: {cpu: "2", memory: 1Gi}, requests: {cpu: 100m, memory: 64Mi}}`,
		},
		"a limit without a request": {
			pod: `{spec: {resources: {limits: {cpu: "1"}, requests: {cpu: 200m}}, containers: [{name: a}]}}`, settings: "resources: {requests: null, limits: {cpu: 2, memory: 8Gi}}",
			want: `{limits: {cpu: "1", memory: 8Gi}, requests: {cpu: 200m}}`,
		},
		"an annotation": {
			pod:     `{metadata: {annotations: {sidecar.istio.io/proxyCPU: 300m}}, spec: {resources: {requests: {cpu: 200m}}, containers: [{name: a}]}}`,
			refused: `annotation "sidecar.istio.io/proxyCPU": "300m": is more than the pod's own containers leave of spec.resources: 200m; write at most as much, or raise spec.resources of the pod (cpu)`,
		},
		"an annotation of a limit": {
			pod:     `{metadata: {annotations: {sidecar.istio.io/proxyMemoryLimit: 2Gi}}, spec: {resources: {limits: {memory: 1Gi}}, containers: [{name: a}]}}`,
			refused: `annotation "sidecar.istio.io/proxyMemoryLimit": "2Gi": is more than spec.resources.limits: 1Gi`,
		},
	} {
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict([]byte(c.pod), &pod); err != nil {
			t.Fatal(err)
		}
		s, err := ParseSettings([]byte(c.settings))
		if err != nil {
			t.Fatal(err)
		}
		before, _ := yaml.Marshal(s.Resources)
		result, err := Inject(&pod, meshed, s)
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v", what, err)
			}
		case err != nil:
			t.Errorf("%s: %v", what, err)
		default:
			got, _ := yaml.Marshal(findProxy(&result.Pod.Spec).Resources)
			var want corev1.ResourceRequirements
			if err := yaml.UnmarshalStrict([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if text, _ := yaml.Marshal(want); string(text) != string(got) {
				t.Errorf("%s: got\n%s\nwant\n%s", what, got, text)
			}
		}
		if after, _ := yaml.Marshal(s.Resources); string(after) != string(before) {
			t.Errorf("%s: the settings have changed: %s", what, after)
		}
	}
}
