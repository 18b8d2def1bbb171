package overlay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Key is a key of a ConfigMap, and says of which object its text is a patch. They are Istio's.
type Key string

// The keys.
const (
	Deployment     Key = "deployment"
	Service        Key = "service"
	ServiceAccount Key = "serviceAccount"
	Autoscaler     Key = "horizontalPodAutoscaler" // there is one where a ConfigMap has the key
	Budget         Key = "podDisruptionBudget"     // and so here
)

// longestText is how long a text may be, in bytes: several times what all fields that may be set take.
const longestText = 64 << 10

// Set is what one ConfigMap says.
type Set struct {
	from    string // "ConfigMap NAMESPACE/NAME"
	patches map[Key]map[string]any
}

// Read takes over what a ConfigMap says, if all of it may be said; an error is an Error.
func Read(namespace, name string, data map[string]string) (*Set, error) {
	s := &Set{from: "ConfigMap " + namespace + "/" + name, patches: map[Key]map[string]any{}}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		rule, known := allowed[Key(key)]
		if !known {
			return nil, s.wrong(Key(key), fmt.Errorf("no object of a gateway is called so: write %s", keysInWords()))
		}
		patch, err := parse(data[key])
		if err == nil {
			err = rule("", patch)
		}
		if err != nil {
			return nil, s.wrong(Key(key), err)
		}
		s.patches[Key(key)] = patch
	}
	return s, nil
}

func keysInWords() string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(allowed)) {
		all = append(all, string(k))
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

// Error is about what a ConfigMap says.
type Error struct{ why error }

func (e Error) Error() string { return e.why.Error() }

// Unwrap gives what is wrong with it.
func (e Error) Unwrap() error { return e.why }

// wrong says where in the ConfigMap something is.
func (s *Set) wrong(key Key, err error) error {
	return Error{fmt.Errorf("%s: data.%s: %w", s.from, key, err)}
}

// parse reads a text; one that is empty patches nothing.
func parse(text string) (map[string]any, error) {
	if len(text) > longestText {
		return nil, fmt.Errorf("it has %d bytes: write at most %d", len(text), longestText)
	}
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("it is no YAML: %w", err)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	switch value := value.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return value, nil
	default:
		return nil, fmt.Errorf("%s: write the object's fields, as in \"spec: {…}\"", show(value))
	}
}

// Has says whether there is a key.
func (s *Set) Has(key Key) bool { return s.patches[key] != nil }

// Says gives the value of a field; false where nothing is said about it.
func (s *Set) Says(key Key, path ...string) (any, bool) {
	var value any = s.patches[key]
	for _, field := range path {
		object, is := value.(map[string]any)
		if !is {
			return nil, false
		}
		var there bool
		if value, there = object[field]; !there {
			return nil, false
		}
	}
	return value, s.Has(key)
}

// Wrong is the Error that says what is wrong with a field.
func (s *Set) Wrong(key Key, field string, value any, why string) error {
	return s.wrong(key, refuse(field, value, why))
}
