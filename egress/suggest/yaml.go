package suggest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

// Manifest is an object as users write it.
func Manifest(o *config.Object) (map[string]any, error) {
	text, err := json.Marshal(o.Spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	if o.Kind == config.KindServiceEntry && spec["location"] == nil {
		spec["location"] = "MESH_EXTERNAL" // the zero value, which JSON leaves out and people look for
	}
	metadata := map[string]any{"name": o.Name, "namespace": o.Namespace}
	for field, values := range map[string]map[string]string{"labels": o.Labels, "annotations": o.Annotations} {
		if len(values) > 0 {
			metadata[field] = values
		}
	}
	version := "networking.istio.io/v1"
	if o.Kind == config.KindEgressPolicy {
		version = v1alpha1.Group + "/" + v1alpha1.Version
	}
	return map[string]any{"apiVersion": version, "kind": string(o.Kind), "metadata": metadata, "spec": spec}, nil
}

// YAML writes an object, always alike.
func YAML(o *config.Object) (string, error) {
	m, err := Manifest(o)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(node(m)); err != nil {
		return "", fmt.Errorf("%s: %w", o.Key, err)
	}
	return b.String(), nil
}

// fieldOrder is how people write fields; others follow in the order of the alphabet.
var fieldOrder = []string{
	"apiVersion", "kind", "metadata", "spec", "name", "namespace", "labels", "annotations", "mode", "selector", "serviceAccounts", "namespaces",
	"hosts", "addresses", "location", "resolution", "number", "protocol", "targetPort", "address", "ports", "protocols", "methods", "paths", "headers", "endpoints",
	"exportTo", "rules", "action", "default", "notBefore", "expires", "reason", "owner", "ticket",
}

// node makes a tree of values with their fields in order. The library quotes what would be read as something else.
func node(v any) *yaml.Node {
	n := &yaml.Node{}
	switch v := v.(type) {
	case map[string]any:
		n.Kind = yaml.MappingNode
		for _, key := range slices.SortedFunc(maps.Keys(v), compareFields) {
			n.Content = append(n.Content, node(key), node(v[key]))
		}
	case []any:
		n.Kind = yaml.SequenceNode
		for _, x := range v {
			n.Content = append(n.Content, node(x))
		}
		if scalars(v) {
			n.Style = yaml.FlowStyle
		}
	default:
		if err := n.Encode(v); err != nil { // of what JSON is made of everything can be written
			n.SetString(fmt.Sprint(v))
		}
	}
	return n
}

// scalars says whether a list is short enough for one line.
func scalars(list []any) bool {
	length := 0
	for _, v := range list {
		switch v := v.(type) {
		case map[string]any, []any:
			return false
		case string:
			length += len(v) + 2
		default:
			length += 6
		}
	}
	return length < 100
}

func compareFields(a, b string) int {
	x, y := slices.Index(fieldOrder, a), slices.Index(fieldOrder, b)
	switch {
	case x >= 0 && y >= 0:
		return x - y
	case x >= 0:
		return -1
	case y >= 0:
		return 1
	default:
		return strings.Compare(a, b)
	}
}
