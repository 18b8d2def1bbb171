package registry

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"unsafe"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// TestTraitsAreToldApart: services share traits only where these are equal, in whatever field.
func TestTraitsAreToldApart(t *testing.T) {
	settings := mesh.Default()
	r := New(&settings)
	plain := r.sameTraits(&Traits{})
	if again := r.sameTraits(&Traits{}); again != plain {
		t.Error("equal traits are two")
	}
	for _, empty := range []*Traits{{Addresses: []netip.Prefix{}}, {Written: []netip.Prefix{}}, {SANs: []string{}}, {ExportTo: ExportTo{Namespaces: []string{}}}} {
		if r.sameTraits(empty) != plain || !reflect.DeepEqual(*New(&settings).sameTraits(empty), *plain) {
			t.Errorf("%+v: an empty list and none are not one, whoever has said so first", *empty)
		}
	}
	changed := 0
	var each func(v reflect.Value, whole *Traits, name string)
	each = func(v reflect.Value, whole *Traits, name string) {
		for i := range v.NumField() {
			field, at := v.Field(i), name+"."+v.Type().Field(i).Name
			if field.Kind() == reflect.Struct {
				each(field, whole, at)
				continue
			}
			field.Set(someValue(t, field.Type()))
			changed++
			own := *whole
			if got := r.sameTraits(&own); !reflect.DeepEqual(*got, own) {
				t.Errorf("%s: %+v are taken for %+v", at, own, *got)
			}
			if got := r.sameTraits(&own); !reflect.DeepEqual(*got, own) {
				t.Errorf("%s: %+v are taken for %+v, the second time", at, own, *got)
			}
			field.SetZero()
		}
	}
	var traits Traits
	each(reflect.ValueOf(&traits).Elem(), &traits, "Traits")
	if changed < 17 {
		t.Errorf("%d fields were tried", changed)
	}
}

// someValue is one that is not zero.
func someValue(t *testing.T, of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("a")
	case reflect.Uint16:
		v.SetUint(3)
	case reflect.Slice:
		v = reflect.MakeSlice(of, 1, 1)
	case reflect.Pointer:
		v = reflect.New(of.Elem())
	default:
		t.Fatalf("no value of %s is known here", of)
	}
	return v
}

// TestWithChangesNobodyElse: a service with other traits leaves those that share the first ones as they are.
func TestWithChangesNobodyElse(t *testing.T) {
	shared := &Traits{Exit: Ref{"a", "b"}}
	one, other := &Service{Host: "one.test", Traits: shared}, &Service{Host: "other.test", Traits: shared}
	led := one.With(func(t *Traits) { t.Exit = Ref{"c", "d"} })
	if led.Exit != (Ref{"c", "d"}) || led.Host != "one.test" || one.Exit != (Ref{"a", "b"}) || other.Exit != (Ref{"a", "b"}) {
		t.Errorf("%v %v %v", led.Exit, one.Exit, other.Exit)
	}
}

// TestServicesShareTraits: what entries say alike is kept once, whether they come together or one by one; and a host of many takes as much room as it is large.
func TestServicesShareTraits(t *testing.T) {
	settings := mesh.Default()
	r := New(&settings)
	entry := func(i int) config.Change {
		key := config.Key{Kind: config.KindServiceEntry, Namespace: "a", Name: fmt.Sprintf("e%d", i)}
		return config.Change{Key: key, Object: &config.Object{Key: key, Hash: uint64(i + 1), Spec: &networking.ServiceEntry{
			Hosts: []string{fmt.Sprintf("h%d.test", i)}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS,
			Ports: []*networking.ServicePort{{Number: 443, Name: "tls", Protocol: "TLS"}},
		}}}
	}
	var all []config.Change
	for i := range 3 * roomFor {
		all = append(all, entry(i))
	}
	r.Apply(all)
	s, _ := r.Apply([]config.Change{entry(len(all))})
	var first *Service
	n := 0
	s.hosts.Walk(func(host string, list []*Service) bool {
		if n++; first == nil {
			first = list[0]
		}
		if len(list) != 1 || list[0].Host != host || list[0].Traits != first.Traits || &list[0].Ports[0] != &first.Ports[0] {
			t.Errorf("%s: %+v does not share what it has alike with %s", host, list[0], first.Host)
		}
		return true
	})
	if n != len(all)+1 {
		t.Errorf("%d hosts", n)
	}
	if size := unsafe.Sizeof(Service{}); size > 216 {
		t.Errorf("a service takes %d bytes, as often as there are hosts", size)
	}
}
