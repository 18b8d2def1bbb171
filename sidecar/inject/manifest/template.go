package manifest

import (
	"encoding/json"
	"fmt"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/sidecar/inject"
)

// templates are the kinds that have pods, and where in them the pod's template is.
var templates = map[string][]string{
	"v1/Pod":                   nil,
	"v1/ReplicationController": {"spec", "template"},
	"apps/v1/Deployment":       {"spec", "template"},
	"apps/v1/ReplicaSet":       {"spec", "template"},
	"apps/v1/StatefulSet":      {"spec", "template"},
	"apps/v1/DaemonSet":        {"spec", "template"},
	"batch/v1/Job":             {"spec", "template"},
	"batch/v1/CronJob":         {"spec", "jobTemplate", "spec", "template"},
}

// owner is the object whose pods are injected.
type owner struct {
	apiVersion, kind, name, generateName, namespace string
}

func (o owner) String() string {
	name := o.name
	if name == "" {
		name = o.generateName + "*"
	}
	return fmt.Sprintf("%s %s/%s", o.kind, o.namespace, name)
}

// inject changes the template at path of the object; nil JSON says that nothing changes.
func (o owner) inject(plain []byte, path []string, s inject.Settings) ([]byte, Outcome, error) {
	outcome := Outcome{Object: o.String()}
	var template corev1.Pod // a PodTemplateSpec has a pod's metadata and spec
	at, err := find(plain, path)
	if err != nil {
		return nil, outcome, err
	}
	if err := json.Unmarshal(at, &template); err != nil {
		return nil, outcome, fmt.Errorf("%s: %w", strings.Join(path, "."), err)
	}
	pod := template.DeepCopy()
	if o.kind != "Pod" { // as the controller will write it
		yes := true
		pod.GenerateName = o.name + "-"
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: o.apiVersion, Kind: o.kind, Name: o.name, Controller: &yes}}
	}
	result, err := inject.Inject(pod, inject.Namespace{Name: o.namespace, Labels: map[string]string{"istio.io/rev": s.Revision}}, s)
	if err != nil || result.Pod == nil {
		outcome.Reason = result.Reason
		return nil, outcome, err
	}
	outcome.Injected, outcome.Warnings = true, result.Warnings
	operations, err := inject.Patch(pod, result.Pod)
	if err != nil {
		return nil, outcome, err
	}
	changed, err := apply(operations, withMetadata(at))
	if err != nil {
		return nil, outcome, err
	}
	whole, err := replace(plain, path, changed)
	return whole, outcome, err
}

// withMetadata gives a template without metadata an empty one, which operations can be applied to.
func withMetadata(template []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(template, &fields) != nil || fields == nil {
		return template
	}
	if m := fields["metadata"]; m != nil && string(m) != "null" {
		return template
	}
	fields["metadata"] = json.RawMessage("{}")
	whole, err := json.Marshal(fields)
	if err != nil {
		return template
	}
	return whole
}

func apply(operations, to []byte) ([]byte, error) {
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return nil, err
	}
	return patch.Apply(to)
}

// find gives the JSON at path.
func find(plain []byte, path []string) ([]byte, error) {
	for i, name := range path {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(plain, &fields); err != nil {
			return nil, fmt.Errorf("%s: is no mapping", strings.Join(path[:i], "."))
		}
		if plain = fields[name]; plain == nil {
			return nil, fmt.Errorf("%s: it is missing", strings.Join(path[:i+1], "."))
		}
	}
	return plain, nil
}

// replace puts other JSON at path, which is there.
func replace(plain []byte, path []string, with []byte) ([]byte, error) {
	if len(path) == 0 {
		return with, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(plain, &fields); err != nil {
		return nil, err
	}
	below, err := replace(fields[path[0]], path[1:], with)
	if err != nil {
		return nil, err
	}
	fields[path[0]] = below
	return json.Marshal(fields)
}
