package translate_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/fields"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestAcceptedValuesAreValid writes odd values into each field of the goldens' objects, and of those that show what is applied. What admission takes makes no
// resource that Envoy's own rules for messages refuse: a proxy refuses all that came with it, whoever wrote that.
func TestAcceptedValuesAreValid(t *testing.T) {
	q := &questions{tried: map[string]bool{}, valid: map[string]bool{}}
	for name, c := range cases(t) {
		for i := range c.objects {
			q.ask(t, name, c, i, []translate.Node{c.node})
		}
	}
	settings, err := mesh.Parse([]byte(folders))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ServiceEntry", "DestinationRule", "Sidecar", "VirtualService", "Gateway", "AuthorizationPolicy", "RequestAuthentication"} {
		for _, f := range fields.Of(kind).Fields {
			if one, _, ok := pairOf(kind, f.Path); ok && f.Fate == fields.Applied {
				c := testCase{objects: pairObjects(t, kind, "default", one), mesh: settings}
				q.ask(t, f.Path, c, len(c.objects)-1, pairNodes)
			}
		}
	}
	t.Logf("%d values that are taken", q.taken)
}

// questions are what was asked already: fields with their values, and resources that are valid.
type questions struct {
	tried, valid map[string]bool
	taken        int
}

// ask writes odd values into one of a case's objects.
func (q *questions) ask(t *testing.T, name string, c testCase, i int, nodes []translate.Node) {
	spec, ok := c.objects[i].Spec.(proto.Message)
	if !ok {
		return
	}
	for _, odd := range oddSpecs(spec.ProtoReflect(), string(c.objects[i].Key.Kind)) {
		if q.tried[odd.what] {
			continue
		}
		q.tried[odd.what] = true
		changed := c
		changed.objects = slices.Clone(c.objects)
		changed.objects[i].Spec, changed.objects[i].Hash = odd.spec, 77
		if refused(changed.objects[i]) {
			continue
		}
		q.taken++
		s := changed.snapshot()
		for _, node := range nodes {
			if err := q.invalid(translate.NewTranslator().Build(s, translate.Classify(s, node))); err != nil {
				t.Errorf("%s: %s: %v", name, odd.what, err)
			}
		}
	}
}

func refused(o config.Object) bool {
	for _, f := range admission.Validate(o) {
		if f.Severity == admission.Error {
			return true
		}
	}
	return false
}

// invalid is what is wrong with a view's resources.
func (q *questions) invalid(v *translate.View) (found error) {
	for _, kind := range resource.Types() {
		if kind == resource.Name || kind == resource.Digest || kind == resource.ServerName {
			continue // no messages of Envoy's
		}
		v.Walk(kind, func(r *resource.Resource) bool {
			key := string(r.Value())
			if q.valid[key] {
				return true
			}
			m, err := r.Any().UnmarshalNew()
			if err == nil {
				err = validate(m.ProtoReflect())
			}
			if err != nil {
				found = fmt.Errorf("%s: %w", r.Name, err)
				return false
			}
			q.valid[key] = true
			return true
		})
	}
	return found
}

// validate asks a message, and what is packed in it.
func validate(m protoreflect.Message) (err error) {
	if v, is := m.Interface().(interface{ Validate() error }); is {
		if err := v.Validate(); err != nil {
			return err
		}
	}
	if packed, is := m.Interface().(*anypb.Any); is {
		if inner, unknown := packed.UnmarshalNew(); unknown == nil {
			return validate(inner.ProtoReflect())
		}
		return nil
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { err = validate(v.Message()); return err == nil })
			}
		case f.Message() == nil:
		case f.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = validate(v.List().Get(i).Message())
			}
		default:
			err = validate(v.Message())
		}
		return err == nil
	})
	return err
}

type oddSpec struct {
	what string
	spec proto.Message
}

// oddSpecs are copies of a message that have an odd value each.
func oddSpecs(spec protoreflect.Message, kind string) (out []oddSpec) {
	var walk func(m protoreflect.Message, path string)
	set := func(path string, v protoreflect.Value, now any, put func(protoreflect.Value)) {
		put(protoreflect.ValueOf(now))
		out = append(out, oddSpec{fmt.Sprintf("%s %s = %.40q", kind, path, fmt.Sprint(now)), proto.Clone(spec.Interface())})
		put(v)
	}
	leaf := func(f protoreflect.FieldDescriptor, path string, v protoreflect.Value, put func(protoreflect.Value)) {
		for _, now := range oddValues(f.Kind()) {
			set(path, v, now, put)
		}
	}
	walk = func(m protoreflect.Message, path string) {
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			at := path + "." + f.JSONName()
			switch {
			case f.IsMap():
				v.Map().Range(func(k protoreflect.MapKey, each protoreflect.Value) bool {
					if f.MapValue().Message() != nil {
						walk(each.Message(), at)
					} else {
						leaf(f.MapValue(), at, each, func(now protoreflect.Value) { v.Map().Set(k, now) })
					}
					return true
				})
				if f.MapKey().Kind() == protoreflect.StringKind {
					oddKeys(f, v.Map(), func(key string) {
						out = append(out, oddSpec{fmt.Sprintf("%s %s[%.40q]", kind, at, key), proto.Clone(spec.Interface())})
					})
				}
			case f.IsList():
				for i := range v.List().Len() {
					if f.Message() != nil {
						walk(v.List().Get(i).Message(), at)
					} else {
						leaf(f, at, v.List().Get(i), func(now protoreflect.Value) { v.List().Set(i, now) })
					}
				}
			case f.Message() != nil:
				walk(v.Message(), at)
			default:
				leaf(f, at, v, func(now protoreflect.Value) { m.Set(f, now) })
			}
			return true
		})
	}
	walk(spec, "spec")
	return out
}

// oddKeys adds a key to a map for as long as it is asked about.
func oddKeys(f protoreflect.FieldDescriptor, m protoreflect.Map, ask func(string)) {
	var some protoreflect.Value
	m.Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { some = v; return false })
	for _, now := range oddValues(protoreflect.StringKind) {
		key := protoreflect.ValueOf(now).MapKey()
		if !m.Has(key) {
			m.Set(key, some)
			ask(now.(string))
			m.Clear(key)
		}
	}
}

func oddValues(k protoreflect.Kind) []any {
	switch k {
	case protoreflect.StringKind:
		return []any{"", "a\nb", "ä", "%", strings.Repeat("s", 300), strings.Repeat("s", 17_000)}
	case protoreflect.Int32Kind:
		return []any{int32(0), int32(-1), int32(math.MaxInt32)}
	case protoreflect.Int64Kind:
		return []any{int64(0), int64(-1), int64(1 << 40)}
	case protoreflect.Uint32Kind:
		return []any{uint32(0), uint32(1), uint32(math.MaxUint32)}
	case protoreflect.Uint64Kind:
		return []any{uint64(0), uint64(1), uint64(math.MaxUint64)}
	case protoreflect.DoubleKind:
		return []any{0.0, -1.0, math.NaN(), math.Inf(1), 1e300}
	default:
		return nil
	}
}
