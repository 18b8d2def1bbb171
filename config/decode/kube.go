package decode

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
)

// readKube reads one of Kubernetes' own objects. Unknown fields are warnings only: few fields are used here, and
// objects that were taken from a newer cluster have some that this program does not know yet.
func readKube(made func() metav1.Object) read {
	return func(o *config.Object, plain []byte) []fault {
		object := made()
		unknown, err := sigsjson.UnmarshalStrict(plain, object)
		if _, secret := object.(*corev1.Secret); secret && err != nil {
			return []fault{{Problem: strict.Problem{Message: "the Secret cannot be read", Fix: "write its values in base64 below data, or as text below stringData"}}}
		} else if err != nil {
			return broken("", err)
		}
		object.SetNamespace(o.Namespace)
		object.SetManagedFields(nil)
		o.Labels, o.Annotations = object.GetLabels(), object.GetAnnotations()
		o.Created = object.GetCreationTimestamp().Time
		if _, secret := object.(*corev1.Secret); secret { // kubectl keeps a copy of everything in an annotation
			o.Labels, o.Annotations = nil, nil
			object.SetLabels(nil)
			object.SetAnnotations(nil)
		}
		o.Spec = object
		return unknownFields(unknown, "", reflect.TypeOf(object).Elem(), true)
	}
}

// unknownFields turns the decoder's strict errors about a value of type t into faults.
func unknownFields(errs []error, path string, t reflect.Type, harmless bool) []fault {
	var faults []fault
	for _, err := range errs {
		var field sigsjson.FieldError
		if !errors.As(err, &field) {
			faults = append(faults, fault{Problem: strict.Problem{Field: path, Message: err.Error(), Fix: "remove it"}, harmless: harmless})
			continue
		}
		fix := "remove it"
		if harmless {
			fix = "remove it, or ignore this if a newer Kubernetes knows it"
		}
		parent, name := cutLast(field.FieldPath())
		if meant := strict.Closest(name, fieldNames(typeAt(t, parent))); meant != "" {
			fix = fmt.Sprintf("did you mean %q?", meant)
		}
		faults = append(faults, fault{
			Problem:  strict.Problem{Field: strings.TrimPrefix(path+"."+field.FieldPath(), "."), Message: "unknown field", Fix: fix},
			harmless: harmless,
		})
	}
	return faults
}

// cutLast splits "spec.ports[0].prot" into "spec.ports[0]" and "prot".
func cutLast(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], path[i+1:]
}

// typeAt follows a path of JSON names through Go types; nil when it leads nowhere.
func typeAt(t reflect.Type, path string) reflect.Type {
	for part := range strings.SplitSeq(path, ".") {
		t = element(t)
		name, _, _ := strings.Cut(part, "[")
		if name == "" || t.Kind() != reflect.Struct {
			continue
		}
		next := reflect.Type(nil)
		for _, f := range reflect.VisibleFields(t) {
			if jsonName(f) == name {
				next = f.Type
			}
		}
		if next == nil {
			return nil
		}
		t = next
	}
	return element(t)
}

// element unwraps pointers, slices and maps.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

func fieldNames(t reflect.Type) []string {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name := jsonName(f); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}
