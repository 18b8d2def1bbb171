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

// tellHealth makes the condition Healthy what the probe says; where it has said nothing yet the condition stays as it is, and without a probe there is
// none. Other conditions stay. It gives what stands then.
func (s *Store) tellHealth(ctx context.Context, held *unstructured.Unstructured, e machines.Entry) (*unstructured.Unstructured, error) {
	if probed(e) && !e.Health.Known {
		return held, nil
	}
	list, _, _ := unstructured.NestedSlice(held.Object, "status", "conditions")
	kept, was := []any{}, map[string]any(nil)
	for _, c := range list {
		if c, _ := c.(map[string]any); c["type"] == decode.Healthy {
			was = c
			continue
		}
		kept = append(kept, c)
	}
	now := healthy(e)
	switch {
	case now == nil && was == nil:
		return held, nil
	case now != nil && was != nil && was["status"] == now["status"] && (was["message"] == now["message"] || was["message"] == nil && now["message"] == ""):
		return held, nil
	case now != nil:
		kept = append(kept, now)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": held.GetResourceVersion()}, "status": map[string]any{"conditions": kept},
	})
	if err != nil {
		return nil, err
	}
	return s.entries.Namespace(held.GetNamespace()).Patch(ctx, held.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}, "status")
}

// probed says whether the group of a machine has a probe.
func probed(e machines.Entry) bool { return e.Object.Annotations[decode.HealthChecks] != "" }

// healthy is the condition of a machine by its probe; nil without one.
func healthy(e machines.Entry) map[string]any {
	if !probed(e) {
		return nil
	}
	status, message := "True", ""
	if !e.Health.Well {
		status, message = "False", e.Health.Why
	}
	at := time.Now().UTC().Format(time.RFC3339)
	return map[string]any{"type": decode.Healthy, "status": status, "message": message, "lastProbeTime": at, "lastTransitionTime": at}
}
