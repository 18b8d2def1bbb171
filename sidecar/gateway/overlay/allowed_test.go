package overlay

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// mayBeSet is what parameters may set, said once more: of all fields that the API's types have, these and no others.
var mayBeSet = map[Key]string{
	Deployment: `apiVersion kind metadata.annotations metadata.labels spec.replicas spec.strategy
		spec.template.metadata.annotations spec.template.metadata.labels
		spec.template.spec.affinity spec.template.spec.containers.name spec.template.spec.containers.resources.limits
		spec.template.spec.containers.resources.requests spec.template.spec.nodeSelector spec.template.spec.priorityClassName
		spec.template.spec.terminationGracePeriodSeconds spec.template.spec.tolerations spec.template.spec.topologySpreadConstraints`,
	Service: `apiVersion kind metadata.annotations metadata.labels spec.externalTrafficPolicy spec.internalTrafficPolicy spec.ipFamilies spec.ipFamilyPolicy
		spec.loadBalancerClass spec.loadBalancerSourceRanges spec.ports.nodePort spec.ports.port spec.ports.protocol
		spec.sessionAffinity spec.sessionAffinityConfig spec.type`,
	ServiceAccount: `apiVersion kind metadata.labels`,
	Autoscaler:     `apiVersion kind metadata.annotations metadata.labels spec.behavior spec.maxReplicas spec.metrics spec.minReplicas`,
	Budget:         `apiVersion kind metadata.annotations metadata.labels spec.maxUnavailable spec.minAvailable spec.unhealthyPodEvictionPolicy`,
}

// TestAllowed walks all fields of the API's types.
func TestAllowed(t *testing.T) {
	for key, of := range map[Key]any{
		Deployment: appsv1.Deployment{}, Service: corev1.Service{}, ServiceAccount: corev1.ServiceAccount{},
		Autoscaler: autoscalingv2.HorizontalPodAutoscaler{}, Budget: policyv1.PodDisruptionBudget{},
	} {
		t.Run(string(key), func(t *testing.T) {
			var got []string
			walk(t, key, reflect.TypeOf(of), nil, &got)
			slices.Sort(got)
			if diff := cmp.Diff(strings.Fields(mayBeSet[key]), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// walk notes the fields of a type, at a path, that may be set as a whole, and looks into those of which some may.
func walk(t *testing.T, key Key, of reflect.Type, path []string, got *[]string) {
	for _, f := range reflect.VisibleFields(of) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || strings.Contains(options, "inline") {
			continue
		}
		at := append(slices.Clone(path), name)
		if refused(t, key, at) {
			if below := structOf(f.Type); below != nil && (!refusedAs(t, key, at, map[string]any{}) || !refusedAs(t, key, at, []any{})) {
				walk(t, key, below, at, got)
			}
			continue
		}
		*got = append(*got, strings.Join(at, "."))
	}
}

// probe is a field that no type has: where it is let through, everything is.
const probe = "no-such-field"

// structOf is the object, or the object of a list, that a type is; nil for others.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct {
		return t
	}
	return nil
}

// refused says whether a ConfigMap is refused that sets a field at a path as a whole.
func refused(t *testing.T, key Key, path []string) bool {
	t.Helper()
	switch path[len(path)-1] { // what may be only some texts
	case "apiVersion", "kind", "type", "protocol", "name", "labels", "annotations":
		for _, text := range []string{"apps/v1", "v1", "autoscaling/v2", "policy/v1", "Deployment", "Service", "ServiceAccount", "HorizontalPodAutoscaler", "PodDisruptionBudget", "ClusterIP", "TCP", "istio-proxy"} {
			if !refusedAs(t, key, path, text) {
				return false
			}
		}
	}
	return refusedAs(t, key, path, map[string]any{probe: "x"})
}

func refusedAs(t *testing.T, key Key, path []string, value any) bool {
	t.Helper()
	for i, field := range slices.Backward(path) {
		object := map[string]any{field: value}
		value = object
		if i > 0 {
			switch path[i-1] {
			case "containers":
				if object["name"] == nil {
					object["name"] = "istio-proxy"
				}
				value = []any{object}
			case "ports", "initContainers", "ephemeralContainers", "volumes", "ownerReferences":
				value = []any{object}
			}
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Read("shop", "web", map[string]string{string(key): string(text)})
	return err != nil
}
