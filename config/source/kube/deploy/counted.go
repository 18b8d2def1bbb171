package deploy

import (
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// isCounted says whether an autoscaler is among the objects.
func isCounted(objects []Object) bool {
	return slices.ContainsFunc(objects, func(o Object) bool {
		_, is := o.(*autoscalingv2.HorizontalPodAutoscaler)
		return is
	})
}

// leftToCount gives a Deployment whose pods an autoscaler counts. While the number is still ours in what the server holds, it is applied as it is there: without
// it, the server would take it away, and there would be one pod until the autoscaler has counted. It is the autoscaler's once that writes another.
func leftToCount(d *appsv1.Deployment, held *unstructured.Unstructured) *appsv1.Deployment {
	if d.Spec.Replicas != nil || !replicasAreOurs(held) {
		return d
	}
	if n, there, _ := unstructured.NestedInt64(held.Object, "spec", "replicas"); there {
		d = d.DeepCopy()
		d.Spec.Replicas = new(int32(n))
	}
	return d
}

// replicasAreOurs says whether the number of pods is among the fields that were applied here.
func replicasAreOurs(held metav1.Object) bool {
	return slices.ContainsFunc(held.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		if e.Manager != FieldManager || e.Operation != metav1.ManagedFieldsOperationApply || e.Subresource != "" || e.FieldsV1 == nil {
			return false
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields)
		return err == nil && fields.Spec["f:replicas"] != nil
	})
}
