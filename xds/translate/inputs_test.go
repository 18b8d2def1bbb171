package translate

import (
	"reflect"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/translate/egressgateway"
	"github.com/sallyport/sallyport/xds/translate/outbound"
)

// TestInputsAreTheKey gives each field of what a host's part is made from another value, one after the other, and those of what
// is in it: whatever is added there, a part that was made without it is not taken for one with it.
func TestInputsAreTheKey(t *testing.T) {
	for _, in := range []hostInputs{
		&outbound.Host{SidecarHost: resolve.SidecarHost{Service: &registry.Service{Host: "a.test", Traits: &registry.Traits{}}, Rule: &registry.DestinationRule{}}},
		&egressgateway.Host{ExitHost: resolve.ExitHost{Own: []resolve.Registration{{Service: &registry.Service{Host: "a.test", Traits: &registry.Traits{}}, Rule: &registry.DestinationRule{}}}}, Trust: "cluster.local"},
	} {
		was := reflect.New(reflect.TypeOf(in).Elem())
		was.Elem().Set(reflect.ValueOf(in).Elem())
		n := eachField(reflect.ValueOf(in).Elem(), reflect.TypeOf(in).String(), func(field string) {
			if same(was.Interface().(hostInputs), in) {
				t.Errorf("%s: a host's part would be taken for one that was made from another value", field)
			}
		})
		if n < 6 {
			t.Errorf("%T: %d fields looked at", in, n)
		}
	}
}

// eachField changes one exported field after the other, of v and of the structs of ours in it, and calls f while it is
// changed. It gives how many there were.
func eachField(v reflect.Value, name string, f func(string)) (n int) {
	for i := range v.NumField() {
		field, at := v.Field(i), name+"."+v.Type().Field(i).Name
		if !field.CanSet() {
			continue
		}
		n++
		if field.Kind() == reflect.Struct && field.NumField() > 0 && field.Field(0).CanSet() {
			n += eachField(field, at, f)
			continue
		}
		was := reflect.New(field.Type()).Elem()
		was.Set(field)
		field.Set(other(field))
		f(at)
		field.Set(was)
	}
	return n
}

// other is a value that differs.
func other(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Bool:
		out.SetBool(!v.Bool())
	case reflect.String:
		out.SetString(v.String() + "x")
	case reflect.Slice:
		out.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Map:
		out.Set(reflect.MakeMap(v.Type()))
		out.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	case reflect.Pointer:
		if v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		out.SetInt(v.Int() + 1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		out.SetUint(v.Uint() + 1)
	default:
		panic("a kind of field that the test does not know: " + v.Type().String())
	}
	return out
}
