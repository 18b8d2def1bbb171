package admission

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/visible"
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
		parts = append(parts, visible.Text(f.Origin))
	}
	parts = append(parts, string(f.Severity))
	if f.Key != (config.Key{}) {
		parts = append(parts, visible.Text(f.Key.String()))
	}
	return strings.Join(append(parts, f.What()), ": ")
}

// What gives the finding without its place, severity and object: `spec.ports[0].number: "0": …; write …`.
func (f Finding) What() string {
	var parts []string
	if f.Field != "" {
		parts = append(parts, visible.Text(f.Field))
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

// report collects the findings about one object.
type report struct {
	of       config.Object
	findings []Finding
}

func (r *report) add(s Severity, field, value, message, fix string) {
	if len(value) > 120 {
		value = strings.ToValidUTF8(value[:117], "") + "..."
	}
	r.findings = append(r.findings, Finding{
		Severity: s, Key: r.of.Key, Origin: r.of.Origin, Field: field, Value: value, Message: message, Fix: fix,
	})
}

// reject reports an error; value is printed as text, nil as nothing.
func (r *report) reject(field string, value any, message, fix string) {
	r.add(Error, field, text(value), message, fix)
}

// warn reports a warning.
func (r *report) warn(field string, value any, message, fix string) {
	r.add(Warning, field, text(value), message, fix)
}

// hostError reports what host's parsers return.
func (r *report) hostError(field string, value string, err error) {
	var e *host.Error
	if errors.As(err, &e) {
		r.reject(field, value, e.Problem, e.Fix)
		return
	}
	r.reject(field, value, err.Error(), "write a host name")
}

// note reports what is to be known.
func (r *report) note(field string, value any, message, fix string) {
	r.add(Info, field, text(value), message, fix)
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// at builds a field's path: at("spec.ports", 0, "number") is "spec.ports[0].number".
func at(parts ...any) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", p)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(p)
		}
	}
	return b.String()
}

// ByOrigin groups findings by the place and the object that they are about: files in order of their names, in each
// by line. The findings of a group keep their order.
func ByOrigin(findings []Finding) [][]Finding {
	all := slices.Clone(findings)
	slices.SortStableFunc(all, func(a, b Finding) int {
		fileA, lineA := splitOrigin(a.Origin)
		fileB, lineB := splitOrigin(b.Origin)
		return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(lineA, lineB), a.Key.Compare(b.Key))
	})
	var groups [][]Finding
	for i, f := range all {
		if i == 0 || f.Origin != all[i-1].Origin || f.Key != all[i-1].Key {
			groups = append(groups, nil)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], f)
	}
	return groups
}

// splitOrigin splits "external.yaml:3". An origin without a line is before all lines.
func splitOrigin(origin string) (file string, line int) {
	i := strings.LastIndexByte(origin, ':')
	if i < 0 {
		return origin, 0
	}
	n, err := strconv.Atoi(origin[i+1:])
	if err != nil {
		return origin, 0
	}
	return origin[:i], n
}

// Where gives the place and the object of a finding: "external.yaml:3: ServiceEntry default/external".
func (f Finding) Where() string {
	switch {
	case f.Key.Kind == "":
		return visible.Text(f.Origin)
	case f.Origin == "":
		return visible.Text(f.Key.String())
	default:
		return visible.Text(f.Origin) + ": " + visible.Text(f.Key.String())
	}
}
