package decode

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
)

const entry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: b, labels: {x: "1", y: "2"}, creationTimestamp: "2026-01-02T03:04:05Z"}
spec:
  hosts: [external.com]
  ports: [{number: 443, name: tls, protocol: TLS}]
  resolution: DNS
`

func one(t *testing.T, text string) config.Object {
	t.Helper()
	r := File("x.yaml", []byte(text))
	if len(r.Objects) != 1 || len(r.Findings) > 0 {
		t.Fatalf("want one object, got %s", describe(r))
	}
	return r.Objects[0]
}

func TestSpec(t *testing.T) {
	o := one(t, entry)
	se, ok := o.Spec.(*networking.ServiceEntry)
	if !ok || se.Hosts[0] != "external.com" || se.Ports[0].Number != 443 || se.Resolution != networking.ServiceEntry_DNS {
		t.Errorf("spec %v", o.Spec)
	}
	if want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC); !o.Created.Equal(want) {
		t.Errorf("created %v", o.Created)
	}
	svc := one(t, "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}")
	if s := svc.Spec.(*corev1.Service); s.Namespace != "default" || s.Spec.Ports[0].Port != 80 {
		t.Errorf("service %v", s)
	}
}

func TestHash(t *testing.T) {
	h := one(t, entry).Hash
	same := []string{
		"# comment\n\n" + entry,
		strings.Replace(entry, `{x: "1", y: "2"}`, `{y: "2", x: "1"}`, 1),
		strings.Replace(entry, "/v1\n", "/v1beta1\n", 1),
		strings.ReplaceAll(entry, "\n", "\r\n"),
		strings.Replace(entry, "namespace: b", "namespace: b, resourceVersion: '7', generation: 3", 1),
	}
	for _, s := range same {
		if one(t, s).Hash != h {
			t.Errorf("another hash for\n%s", s)
		}
	}
	for _, r := range [][2]string{
		{`x: "1"`, `x: "2"`}, {"name: a", "name: c"}, {"namespace: b", "namespace: c"}, {"443", "444"},
		{"2026", "2025"}, {"labels", "annotations"}, {"external.com", "external.org"},
	} {
		if one(t, strings.Replace(entry, r[0], r[1], 1)).Hash == h {
			t.Errorf("the same hash with %s", r[1])
		}
	}
	a := one(t, "apiVersion: v1\nkind: Service\nmetadata: {name: s, resourceVersion: '1'}\nspec: {ports: [{port: 80}]}")
	b := one(t, "apiVersion: v1\nkind: Service\nmetadata: {name: s, resourceVersion: '2'}\nspec: {ports: [{port: 80}]}")
	c := one(t, "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 81}]}")
	if a.Hash != b.Hash || a.Hash == c.Hash {
		t.Errorf("hashes of services %x %x %x", a.Hash, b.Hash, c.Hash)
	}
}

func TestLimits(t *testing.T) {
	big := entry + "# " + strings.Repeat("x", MaxDocument)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"document":      {[]byte(big), "at most 1048576 are read"},
		"second":        {[]byte(entry + "---\n" + big), "x.yaml:9: error"},
		"not text":      {[]byte("a: \xff"), "not UTF-8"},
		"long text":     {[]byte("a: &a " + strings.Repeat("x", 500_000) + "\nb: [" + strings.Repeat("*a, ", 1000) + "]"), "aliases"},
		"endless":       {[]byte("a: &a [*a]"), "x.yaml:1: error"},
		"deep":          {[]byte(strings.Repeat("[", 20_000)), "x.yaml:1: error"},
		"deep json":     {[]byte(strings.Repeat(`{"a":`, 20_000)), "x.yaml:1: error"},
		"lists in list": {[]byte(strings.Repeat(`{kind: List, apiVersion: v1, items: [`, 9) + strings.Repeat("]}", 9)), ""},
	} {
		start := time.Now()
		r := File("x.yaml", c.data)
		if got := describe(r); !strings.Contains(got, c.want) {
			t.Errorf("%s: %.300s", name, got)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s took %v", name, d)
		}
	}
	if r := File("x", bytes.Repeat([]byte(" "), MaxFile+1)); r.State != Unreadable {
		t.Errorf("a huge file is %v", r.State)
	}
}

func TestByteOrderMark(t *testing.T) {
	one(t, "\ufeff"+entry)
}

// FuzzFile looks for panics, for objects without a name, and for a hash that depends on anything but the object.
func FuzzFile(f *testing.F) {
	f.Add([]byte(entry))
	f.Add([]byte("a: &a [*a]\n---\n- x\n...\n%YAML 1.1\n--- {}"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}]}`))
	f.Add([]byte("apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: a}\nspec: {egress: [{hosts: ['./*']}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, again := File("f.yaml", data), File("f.yaml", data)
		for i, o := range r.Objects {
			if o.Name == "" || o.Kind == "" || o.Spec == nil {
				t.Fatalf("half an object: %+v", o)
			}
			if o.Hash != again.Objects[i].Hash {
				t.Fatalf("%s has two hashes", o.Key)
			}
		}
		if r.State != Whole && len(r.Findings) == 0 {
			t.Fatal("not whole, and no finding says why")
		}
	})
}

func BenchmarkFile(b *testing.B) {
	var files [][]byte
	for i := range 100 {
		files = append(files, fmt.Appendf(nil, "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: e%d}\nspec:\n  hosts: [h%d.example.com]\n  ports:\n  - {number: 443, name: tls, protocol: TLS}\n  resolution: DNS\n", i, i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if r := File("x.yaml", files[i%len(files)]); len(r.Objects) != 1 {
			b.Fatal(describe(r))
		}
	}
}
