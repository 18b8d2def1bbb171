package fields

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

func all() []*Kind { return append(append([]*Kind{}, kinds...), &MeshConfig) }

// TestEveryFieldHasAFate walks the API's descriptors: a field that a new version of the API brings, and that is in no
// table, is an error here.
func TestEveryFieldHasAFate(t *testing.T) {
	for _, k := range all() {
		t.Run(k.Name, func(t *testing.T) {
			missing(t, k, k.Message.ProtoReflect().Descriptor(), "", nil)
		})
	}
}

func missing(t *testing.T, k *Kind, md protoreflect.MessageDescriptor, path string, within []protoreflect.FullName) {
	if line, ok := anyValue(k, path); ok && line.Fate != Applied {
		return
	}
	for _, name := range within {
		if name == md.FullName() {
			t.Errorf("%s: %s is within itself; give it a fate as a whole", path, name)
			return
		}
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		at := join(path, fd.JSONName())
		value := fd
		if fd.IsMap() {
			value = fd.MapValue()
		}
		line, ok := anyValue(k, at)
		switch {
		case isMessage(value) && value.Message().Fields().Len() > 0 && ok && line.Fate == Applied:
			t.Errorf("%s is a message that is called applied as a whole: say it of its fields", at)
		case isMessage(value) && !ok:
			missing(t, k, value.Message(), at, append(within, md.FullName()))
		case !ok:
			t.Errorf("%s: no line of the table says, for every value, what becomes of it", at)
		}
	}
}

// anyValue finds the line of a path that holds whatever the value is.
func anyValue(k *Kind, path string) (Field, bool) {
	for _, f := range k.Fields {
		if f.Path == path && f.When == nil {
			return f, true
		}
	}
	return Field{}, false
}

// TestLines holds each line to what the API has, and to its form.
func TestLines(t *testing.T) {
	for _, k := range all() {
		seen := map[string]bool{}
		for _, f := range k.Fields {
			at := k.Name + ": " + f.Path
			if f.Path != "" && find(k.Message.ProtoReflect().Descriptor(), strings.Split(f.Path, ".")) == nil {
				t.Errorf("%s: the API has no such field", at)
			}
			if seen[f.Path] {
				t.Errorf("%s: an earlier line holds for every value, so this one never does", at)
			}
			seen[f.Path] = seen[f.Path] || f.When == nil
			if (f.Fate == Warned || f.Fate == Refused) && (f.Why == "" || f.Fix == "") {
				t.Errorf("%s: it says not why, or not what to do", at)
			}
		}
	}
}

func find(md protoreflect.MessageDescriptor, path []string) protoreflect.FieldDescriptor {
	fd := md.Fields().ByJSONName(path[0])
	if fd == nil || len(path) == 1 {
		return fd
	}
	value := fd
	if fd.IsMap() {
		value = fd.MapValue()
	}
	if value.Message() == nil {
		return nil
	}
	return find(value.Message(), path[1:])
}
