package fields

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/decode/strict"
)

// Remark is what is to be said of one field of an object: it is warned of, or refused.
type Remark struct {
	Path  string // with indices: "spec.http[0].directResponse"; empty for the object as a whole
	Value string // as text; empty for a message
	Field        // the table's line
}

// Remarks goes through what is set in a message of the kind and gives what is to be said, in the order of the API's
// fields. root is what paths begin with: "spec", or nothing.
func (k *Kind) Remarks(m proto.Message, root string) []Remark {
	w := walker{kind: k}
	within := w.judge("", "", m, false)
	w.message(m.ProtoReflect(), "", root, within)
	return w.remarks
}

type walker struct {
	kind    *Kind
	remarks []Remark
}

// message goes through what is set. said tells that it was warned of as a whole.
func (w *walker) message(m protoreflect.Message, path, at string, said bool) {
	all := m.Descriptor().Fields()
	for i := range all.Len() {
		if fd := all.Get(i); m.Has(fd) {
			w.field(fd, m.Get(fd), join(path, fd.JSONName()), strict.Join(at, fd.JSONName()), said)
		}
	}
}

func (w *walker) field(fd protoreflect.FieldDescriptor, v protoreflect.Value, path, at string, said bool) {
	switch {
	case fd.IsMap() && isMessage(fd.MapValue()):
		for _, key := range sortedKeys(v.Map()) {
			w.single(fd.MapValue(), v.Map().Get(key), path, strict.Join(at, key.String()), said)
		}
	case fd.IsList() && isMessage(fd):
		for i := range v.List().Len() {
			w.single(fd, v.List().Get(i), path, fmt.Sprintf("%s[%d]", at, i), said)
		}
	case isMessage(fd) && !fd.IsMap():
		w.single(fd, v, path, at, said)
	default:
		w.judge(path, at, plain(fd, v), said)
	}
}

// single judges a message, and goes into it.
func (w *walker) single(fd protoreflect.FieldDescriptor, v protoreflect.Value, path, at string, said bool) {
	said = w.judge(path, at, scalar(fd, v), said)
	w.message(v.Message(), path, at, said)
}

// judge looks a value up and says what is to be said, once: what is within something that was warned of is not warned
// of again. It tells whether this is so for what is within the value.
func (w *walker) judge(path, at string, value any, said bool) bool {
	line, counts := w.kind.lineFor(path, value)
	if counts && (line.Fate == Refused || line.Fate == Warned && !said) {
		w.say(at, value, line)
	}
	return said || counts && line.Fate != Applied
}

func (w *walker) say(at string, value any, line Field) {
	text := ""
	switch value := value.(type) {
	case proto.Message:
	case []string:
		text = strings.Join(value, ", ")
	default:
		text = fmt.Sprint(value)
	}
	w.remarks = append(w.remarks, Remark{Path: at, Value: text, Field: line})
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// isMessage says whether values of the field have fields of their own in YAML.
func isMessage(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && !strings.HasPrefix(string(fd.Message().FullName()), "google.protobuf.")
}

func sortedKeys(m protoreflect.Map) []protoreflect.MapKey {
	var keys []protoreflect.MapKey
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

// plain gives a value as When gets it.
func plain(fd protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case fd.IsMap():
		var out []string
		for _, k := range sortedKeys(v.Map()) {
			out = append(out, k.String()+"="+v.Map().Get(k).String())
		}
		return out
	case fd.IsList():
		if list, ok := v.Interface().(protoreflect.List); ok {
			out := make([]string, list.Len())
			for i := range out {
				out[i] = fmt.Sprint(scalar(fd, list.Get(i)))
			}
			return out
		}
	}
	return scalar(fd, v)
}

func scalar(fd protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case fd.Message() != nil:
		m := v.Message().Interface()
		if !isMessage(fd) {
			return wellKnown(m)
		}
		return m
	case fd.Enum() != nil:
		if value := fd.Enum().Values().ByNumber(v.Enum()); value != nil {
			return string(value.Name())
		}
		return fmt.Sprint(v.Enum())
	default:
		return v.Interface()
	}
}

// wellKnown gives the Go value of a message that YAML writes as one value.
func wellKnown(m proto.Message) any {
	switch m := m.(type) {
	case *durationpb.Duration:
		return m.AsDuration().String()
	case *wrapperspb.BoolValue:
		return m.Value
	case *wrapperspb.DoubleValue:
		return m.Value
	case *wrapperspb.UInt32Value:
		return m.Value
	case *wrapperspb.Int32Value:
		return m.Value
	case *wrapperspb.Int64Value:
		return m.Value
	default:
		return m
	}
}
