package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	sigsjson "sigs.k8s.io/json"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
)

// readIstio reads one of Istio's objects. Unknown fields are errors, in the spec and around it: a mistyped
// "exportTo" must not mean "to everyone".
func readIstio(o *config.Object, plain []byte) []fault {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(plain, &top); err != nil {
		return broken("", err)
	}
	spec := istioSpec(o.Kind)
	descriptor := spec.ProtoReflect().Descriptor()
	var faults []fault
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if slices.Contains(topFields, name) {
			continue
		}
		fix := "remove it; an object has apiVersion, kind, metadata and spec"
		if descriptor.Fields().ByJSONName(name) != nil {
			fix = fmt.Sprintf("did you mean \"spec.%s\"? Indent it below spec", name)
		} else if meant := strict.Closest(name, []string{"metadata", "spec", "status"}); meant != "" {
			fix = fmt.Sprintf("did you mean %q?", meant)
		}
		faults = append(faults, fault{Problem: strict.Problem{Field: name, Message: "unknown field", Fix: fix}})
	}
	around, whole := readAround(o, top)
	if faults = append(faults, around...); !whole {
		return faults
	}
	var tree any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(top["spec"], &tree); err != nil {
		return append(faults, broken("spec", err)...)
	}
	for _, p := range strict.Message(tree, descriptor, "spec") {
		faults = append(faults, fault{Problem: p})
	}
	if len(faults) > 0 {
		o.Spec = loosely(o.Kind, tree)
		return faults
	}
	// Istio's own decoder, by way of the type's UnmarshalJSON: durations like "100ms" are its extension.
	if err := json.Unmarshal(top["spec"], spec); err != nil {
		return broken("spec", err)
	}
	o.Spec = spec
	if o.Kind == config.KindWorkloadEntry {
		o.Out = outOf(o.Annotations, top["status"])
	}
	return nil
}

// broken turns a decoder's error into a fault.
func broken(path string, err error) []fault {
	p := strict.Problem{Field: path, Message: strings.TrimPrefix(err.Error(), "json: "), Fix: "see the API's reference for what this field takes"}
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		p.Field = strings.TrimPrefix(path+"."+t.Field, ".")
		article := "a"
		if t.Value != "" && strings.Contains("aeiou", t.Value[:1]) {
			article = "an"
		}
		p.Message = fmt.Sprintf("%s %s does not belong here", article, t.Value)
		p.Fix = "write " + goType(t.Type)
	}
	return []fault{{Problem: p}}
}

// goType names a type in the words of a YAML user.
func goType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text, in quotes if needed"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a mapping"
	case reflect.Pointer:
		return goType(t.Elem())
	default:
		return "a number within its range"
	}
}

// HealthChecks is Istio's annotation of a WorkloadEntry that is an endpoint only while its condition Healthy says so, and Healthy that condition.
const (
	HealthChecks = "proxy.istio.io/health-checks-enabled"
	Healthy      = "Healthy"
)

// outOf says why a WorkloadEntry is no endpoint; "" where it is one.
func outOf(annotations map[string]string, status json.RawMessage) string {
	if annotations[HealthChecks] != "true" {
		return ""
	}
	var s struct {
		Conditions []struct {
			Type, Status, Message string
		} `json:"conditions"`
	}
	if len(status) > 0 && json.Unmarshal(status, &s) != nil {
		return "its status cannot be read"
	}
	for _, c := range s.Conditions {
		switch {
		case c.Type != Healthy:
		case c.Status == "True":
			return ""
		default:
			return "its probe fails: " + c.Message
		}
	}
	return "its probe has not succeeded yet"
}
