package admission

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
)

// Severity says what a finding means for its object.
type Severity string

// An object with an error is refused; one with warnings is applied. Info is for what is as it should be, and to be known.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is one thing that is wrong with one object.
type Finding struct {
	Severity Severity
	Key      config.Key // the zero Key when it is a document's fault and no object is known
	Origin   string     // where the user finds it: "external.yaml:3"
	Field    string     // "spec.ports[0].number"; empty when the whole object is meant
	Value    string     // as written; empty when nothing is written
	Message  string     // what is wrong
	Fix      string     // what to do
}

// String gives the finding as one line.
func (f Finding) String() string {
	var parts []string
	if f.Origin != "" {
		parts = append(parts, f.Origin)
	}
	parts = append(parts, string(f.Severity))
	if f.Key != (config.Key{}) {
		parts = append(parts, f.Key.String())
	}
	return strings.Join(append(parts, f.What()), ": ")
}

// What gives the finding without its place, severity and object: `spec.ports[0].number: "0": …; write …`.
func (f Finding) What() string {
	var parts []string
	if f.Field != "" {
		parts = append(parts, f.Field)
	}
	if f.Value != "" {
		parts = append(parts, fmt.Sprintf("%q", f.Value))
	}
	s := strings.Join(append(parts, f.Message), ": ")
	if f.Fix == "" {
		return s
	}
	return s + "; " + f.Fix
}

// Sort puts findings into their total order: by object, the place in it, then the words.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Value, b.Value))
	})
}

// Refused says whether one of the findings is an error.
func Refused(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Error })
}

// MarshalJSON writes the object's key as three fields: kind, namespace, name.
func (f Finding) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Severity  Severity    `json:"severity"`
		Kind      config.Kind `json:"kind,omitempty"`
		Namespace string      `json:"namespace,omitempty"`
		Name      string      `json:"name,omitempty"`
		Origin    string      `json:"origin,omitempty"`
		Field     string      `json:"field,omitempty"`
		Value     string      `json:"value,omitempty"`
		Message   string      `json:"message"`
		Fix       string      `json:"fix,omitempty"`
	}{f.Severity, f.Key.Kind, f.Key.Namespace, f.Key.Name, f.Origin, f.Field, f.Value, f.Message, f.Fix})
}
