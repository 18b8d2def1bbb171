package admission

import (
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config/fields"
)

// fields reports what the kind's table says of what the object sets: what is not applied is a warning, or an error where
// to ignore it would be less safe.
func (r *report) fields() {
	table := fields.Of(string(r.of.Kind))
	spec, ok := r.of.Spec.(proto.Message)
	if table == nil || !ok {
		return
	}
	for _, x := range table.Remarks(spec, "spec") {
		severity, field, value, message := Warning, x.Path, x.Value, "is not applied: "+x.Why
		if x.Fate == fields.Refused {
			severity = Error
		}
		if field == "" {
			field, value, message = "kind", string(r.of.Kind), x.Why
		}
		r.add(severity, field, value, message, x.Fix)
	}
}
