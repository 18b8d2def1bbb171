package strict

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

func TestClosest(t *testing.T) {
	fields := []string{"hosts", "addresses", "ports", "exportTo", "resolution", "workloadSelector"}
	for word, want := range map[string]string{
		"host": "hosts", "prots": "ports", "export_to": "exportTo", "ExportTo": "exportTo", "exportsTo": "exportTo",
		"resolutoin": "resolution", "workload-selector": "workloadSelector", "zebra": "", "": "", "x": "",
	} {
		if got := Closest(word, fields); got != want {
			t.Errorf("Closest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestMessage(t *testing.T) {
	md := (&networking.ServiceEntry{}).ProtoReflect().Descriptor()
	good := map[string]any{
		"hosts": []any{"a.com"}, "export_to": []any{"."}, "resolution": int64(2), "location": "MESH_INTERNAL",
		"ports":     []any{map[string]any{"number": "443", "protocol": "TLS", "targetPort": float64(8443)}},
		"endpoints": []any{map[string]any{"ports": map[string]any{"tls": int64(1)}, "labels": nil}}, "addresses": nil,
	}
	if p := Message(good, md, "spec"); len(p) > 0 {
		t.Errorf("problems with what is right: %v", p)
	}
	for _, c := range []struct {
		tree any
		want string
	}{
		{"x", `spec: "x": is a string, not a mapping of fields; write spec.FIELD: VALUE`},
		{map[string]any{"ports": map[string]any{}}, `spec.ports: {}: is a mapping, not a list; write a list, each item on its own line after "- "`},
		{map[string]any{"ports": []any{nil}}, `spec.ports[0]: the item is empty; give it a value or remove it`},
		{map[string]any{"resolution": int64(9)}, `spec.resolution: 9: unknown value; use one of NONE, STATIC, DNS, DNS_ROUND_ROBIN, DYNAMIC_DNS`},
		{map[string]any{"ports": []any{map[string]any{"number": int64(-1)}}}, `spec.ports[0].number: -1: is out of range; write a whole number from 0 to 4294967295`},
		{map[string]any{"endpoints": []any{map[string]any{"labels": map[string]any{"a.b/c": true}}}}, `spec.endpoints[0].labels["a.b/c"]: true: is a boolean, not a string; put it in quotes: "true"`},
	} {
		p := Message(c.tree, md, "spec")
		if len(p) != 1 || p[0].Error() != c.want {
			t.Errorf("%v:\n got %v\nwant %s", c.tree, p, c.want)
		}
	}
	many := map[string]any{}
	for i := range 100 {
		many[string(rune('a'+i%26))+string(rune('A'+i/26))] = i
	}
	if p := Message(many, md, "spec"); len(p) != maxProblems {
		t.Errorf("%d problems", len(p))
	}
}

// TestTimes: what is no time is said with its field, and with what it lacks.
func TestTimes(t *testing.T) {
	md := (&v1alpha1.EgressPolicy{}).ProtoReflect().Descriptor()
	rule := func(expires any) map[string]any {
		return map[string]any{"rules": []any{map[string]any{"expires": expires}}}
	}
	for _, good := range []any{nil, "2030-12-31T00:00:00Z", "2030-12-31T00:00:00.5Z", "2030-12-31T00:00:00+14:00", "2028-02-29T00:00:00-00:00", "9999-12-31T23:59:59Z"} {
		if p := Message(rule(good), md, "spec"); len(p) > 0 {
			t.Errorf("%v: %v", good, p)
		}
	}
	const field, asIn = "spec.rules[0].expires: ", `: is no time with its zone (RFC 3339); write it as in "2030-01-31T00:00:00Z"`
	for in, want := range map[any]string{
		"2030-12-31":           `"2030-12-31": is no time with its zone (RFC 3339); write "2030-12-31T00:00:00Z", or with another time zone, as in +01:00`,
		"2030-12-31T00:00:00":  `"2030-12-31T00:00:00": is no time with its zone (RFC 3339); write "2030-12-31T00:00:00Z", or with another time zone, as in +01:00`,
		"2030-12-31t00:00:00z": `"2030-12-31t00:00:00z"` + asIn,
		"2030-02-29T00:00:00Z": `"2030-02-29T00:00:00Z"` + asIn,
		"2030-02-30":           `"2030-02-30"` + asIn,
		"2016-12-31T23:59:60Z": `"2016-12-31T23:59:60Z"` + asIn,
		"0000-12-31T00:00:00Z": `"0000-12-31T00:00:00Z"` + asIn,
		"never":                `"never"` + asIn,
		"":                     `""` + asIn,
		int64(1924905600):      `1924905600: is a number, not a string; put it in quotes: "1924905600"`,
	} {
		if p := Message(rule(in), md, "spec"); len(p) != 1 || p[0].Error() != field+want {
			t.Errorf("%v:\n got %v\nwant %s", in, p, field+want)
		}
	}
}
