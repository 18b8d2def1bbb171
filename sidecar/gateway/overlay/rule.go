package overlay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// rule says why a value may not be written at a field; nil where it may.
type rule func(at string, value any) error

// refuse says that a value may not be at a field.
func refuse(at string, value any, why string) error {
	if at == "" {
		return fmt.Errorf("%s: %s", show(value), why)
	}
	return fmt.Errorf("%s: %s: %s", at, show(value), why)
}

// longestShown is how much of a value is repeated in an error, in bytes.
const longestShown = 60

// show gives a value as it is repeated in errors: texts, numbers and the like. What is in lists and objects, nobody is told who may not read it where it is.
func show(value any) string {
	switch value := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return fmt.Sprintf("a list of %d", len(value))
	}
	text, _ := json.Marshal(value)
	if len(text) > longestShown {
		return strings.ToValidUTF8(string(text[:longestShown]), "") + "…"
	}
	return string(text)
}

// below is the name of a field of an object.
func below(at, field string) string {
	if at == "" {
		return field
	}
	return at + "." + field
}

// whole lets everything be written; the object's own type, and the API server, say what is right.
func whole(string, any) error { return nil }

// fields lets these of an object be written, each as its rule says, and no others: neither null in its place nor directives of patches in it.
func fields(of map[string]rule) rule {
	return func(at string, value any) error {
		object, is := value.(map[string]any)
		if !is {
			return refuse(at, value, "write an object")
		}
		for _, field := range slices.Sorted(maps.Keys(object)) {
			rule, known := of[field]
			if !known {
				return refuse(below(at, field), object[field], "parameters do not set it: remove it; at this place may stand "+strings.Join(slices.Sorted(maps.Keys(of)), ", "))
			}
			if err := rule(below(at, field), object[field]); err != nil {
				return err
			}
		}
		return nil
	}
}

// items lets a list be written with such items.
func items(of rule) rule {
	return func(at string, value any) error {
		list, is := value.([]any)
		if !is {
			return refuse(at, value, "write a list")
		}
		for i, item := range list {
			if err := of(fmt.Sprintf("%s[%d]", at, i), item); err != nil {
				return err
			}
		}
		return nil
	}
}

// word lets one of these texts be written.
func word(of ...string) rule {
	return func(at string, value any) error {
		if text, is := value.(string); is && slices.Contains(of, text) {
			return nil
		}
		return refuse(at, value, "write "+strings.Join(of, " or "))
	}
}
