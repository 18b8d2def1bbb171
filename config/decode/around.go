package decode

import (
	"encoding/json"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
)

// topFields are what an object has around and beside its spec.
var topFields = []string{"apiVersion", "kind", "metadata", "spec", "status"}

// readAround reads an object's metadata, and says whether there is a spec to read.
func readAround(o *config.Object, top map[string]json.RawMessage) (faults []fault, whole bool) {
	var meta metav1.ObjectMeta
	unknown, err := sigsjson.UnmarshalStrict(top["metadata"], &meta)
	if err != nil {
		return broken("metadata", err), false
	}
	faults = unknownFields(unknown, "metadata", reflect.TypeOf(meta), false)
	o.Labels, o.Annotations, o.Created = meta.Labels, meta.Annotations, meta.CreationTimestamp.Time
	if top["spec"] == nil || string(top["spec"]) == "null" {
		return append(faults, fault{Problem: strict.Problem{Field: "spec", Message: "it is missing", Fix: "write the spec of the " + plainName(o.Kind)}}), false
	}
	return faults, true
}
