package joined

import (
	"context"
	"encoding/json"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/source/machines"
)

// specOf is a spec as it is written.
func specOf(e *networking.WorkloadEntry) (out map[string]any, err error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(text, &out)
}

// tellHealth makes the condition Healthy what the probe says, where there is one. Other conditions stay.
func (s *Store) tellHealth(ctx context.Context, held *unstructured.Unstructured, e machines.Entry) error {
	if e.Object.Annotations[decode.HealthChecks] == "" || !e.Health.Known {
		return nil
	}
	status, message := "True", ""
	if !e.Health.Well {
		status, message = "False", e.Health.Why
	}
	list, _, _ := unstructured.NestedSlice(held.Object, "status", "conditions")
	kept := []any{}
	for _, c := range list {
		was, _ := c.(map[string]any)
		switch {
		case was["type"] != decode.Healthy:
			kept = append(kept, c)
		case was["status"] == status && (was["message"] == message || was["message"] == nil && message == ""):
			return nil
		}
	}
	now := time.Now().UTC().Format(time.RFC3339)
	kept = append(kept, map[string]any{"type": decode.Healthy, "status": status, "message": message, "lastProbeTime": now, "lastTransitionTime": now})
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": held.GetResourceVersion()}, "status": map[string]any{"conditions": kept},
	})
	if err != nil {
		return err
	}
	_, err = s.entries.Namespace(held.GetNamespace()).Patch(ctx, held.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}, "status")
	return err
}
