package kube

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sallyport/sallyport/config"
)

// read decodes a ServiceEntry of the wire; a bad one is refused.
func read(t *testing.T, name, host string, generation int, bad bool) version {
	t.Helper()
	extra := ""
	if bad {
		extra = `,"exportTo":[".","*"]`
	}
	var i item
	err := i.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry",
		"metadata":{"name":%q,"namespace":"n","generation":%d,"resourceVersion":"7","futureField":1},
		"spec":{"hosts":[%q],"ports":[{"number":443,"name":"tls","protocol":"TLS"}],"resolution":"DNS"%s}}`, name, generation, host, extra))
	if err != nil {
		t.Fatal(err)
	}
	if (i.object == nil) != bad {
		t.Fatalf("refused: %v, want %v: %v", i.object == nil, bad, i.findings)
	}
	return i.version
}

func TestStore(t *testing.T) {
	k := kinds()[0]
	s := newStore([]kind{k})
	key := func(name string) config.Key { return config.Key{Kind: k.Kind, Namespace: "n", Name: name} }
	// step does something, and says what comes of it: "+" set, "-" removed, and the judgements: "ok", "bad", "kept", "gone".
	step := func(what string, do func(), want string) {
		t.Helper()
		do()
		c := s.collect()
		var got []string
		for _, ch := range c.changes {
			sign := "+"
			if ch.Object == nil {
				sign = "-"
			}
			got = append(got, sign+ch.Key.Name)
		}
		for _, j := range c.judgements {
			verdict := "ok"
			switch {
			case j.Gone:
				verdict = "gone"
			case j.Refused && j.LastGood:
				verdict = "kept"
			case j.Refused:
				verdict = "bad"
			}
			got = append(got, fmt.Sprintf("%s:%s%d", j.Key.Name, verdict, j.Generation))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %q, want %q", what, text, want)
		}
	}
	put := func(v version) func() { return func() { s.put(k, v) } }
	a1 := read(t, "a", "a.com", 1, false)
	step("new", put(a1), "+a a:ok1")
	step("again", put(read(t, "a", "a.com", 1, false)), "")
	step("the same in another generation", put(read(t, "a", "a.com", 2, false)), "a:ok2")
	step("refused", put(read(t, "a", "b.com", 3, true)), "a:kept3")
	if f := s.findings(); len(f) != 1 || !strings.HasSuffix(f[0].Fix, "until then its last good version is used") || f[0].Origin != "cluster" {
		t.Errorf("findings %v", f)
	}
	step("mended", put(read(t, "a", "b.com", 4, false)), "+a a:ok4")
	step("relisted", func() { s.replace(k, []version{read(t, "a", "b.com", 4, false)}) }, "")
	step("another refused from the start", put(read(t, "b", "b.com", 1, true)), "b:bad1")
	step("deleted and refused at once", func() {
		s.remove(k, key("a"))
		s.put(k, read(t, "a", "c.com", 1, true))
	}, "-a a:bad1")
	step("good again", put(a1), "+a a:ok1")
	step("deleted and back at once", func() {
		s.remove(k, key("a"))
		s.put(k, a1)
	}, "a:ok1")
	step("a list without it", func() { s.replace(k, nil) }, "-a a:gone0 b:gone0")
	step("deleted twice", func() { s.remove(k, key("a")) }, "")
	if f := s.findings(); len(f) != 0 {
		t.Errorf("findings %v", f)
	}
	if len(s.objects[k.Kind]) != 0 {
		t.Errorf("%d records are left", len(s.objects[k.Kind]))
	}
}

func TestStanding(t *testing.T) {
	k := kinds()[0]
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceentries"}, "", errors.New("no rights"))
	for name, c := range map[string]struct {
		do                 func(*store)
		settled, impatient bool
		finding            string
	}{
		"nothing yet": {func(*store) {}, false, false, ""},
		"listed":      {func(s *store) { s.replace(k, nil) }, true, true, ""},
		"absent":      {func(s *store) { s.setVersion(k, "") }, true, true, "there is no CustomResourceDefinition"},
		"forbidden":   {func(s *store) { s.listResult(k, forbidden) }, false, true, "let the service account list and watch serviceentries.networking.istio.io"},
		"not served":  {func(s *store) { s.listResult(k, notServed(k)) }, false, true, "is established"},
		"failing":     {func(s *store) { s.listResult(k, apierrors.NewInternalError(errors.New("webhook"))) }, false, true, "see the API server's log"},
		"one failure": {func(s *store) { s.listResult(k, errors.New("refused")) }, false, false, ""},
		"silence": {func(s *store) {
			for range 3 {
				s.listResult(k, errors.New("refused"))
			}
		}, false, false, "does not answer (refused)"},
		"silence, ended": {func(s *store) {
			for range 3 {
				s.listResult(k, errors.New("refused"))
			}
			s.bookmark(k)
		}, false, false, ""},
		"watch forbidden": {func(s *store) { s.replace(k, nil); s.watchResult(k, forbidden) }, true, true, "cannot be read"},
		"watch mended":    {func(s *store) { s.watchResult(k, forbidden); s.watchResult(k, nil) }, false, false, ""},
	} {
		s := newStore([]kind{k})
		c.do(s)
		if settled, _ := s.all(true); settled != c.settled {
			t.Errorf("%s: settled %v", name, settled)
		}
		if settled, _ := s.all(false); settled != c.impatient {
			t.Errorf("%s: settled without patience %v", name, settled)
		}
		f := s.findings()
		if (len(f) > 0) != (c.finding != "") || (len(f) > 0 && !strings.Contains(f[0].String(), c.finding)) {
			t.Errorf("%s: findings %v", name, f)
		}
	}
}

func FuzzItem(f *testing.F) {
	f.Add(wire(7))
	f.Add([]byte(`{"kind":"ServiceEntry","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"9"}}`))
	f.Add([]byte(`{"apiVersion":"networking.istio.io/v1","kind":"List","items":[],"metadata":{"name":"x"},"spec":null,"status":7}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var i item
		if i.UnmarshalJSON(data) != nil {
			return
		}
		if i.Name != "" && i.object == nil && len(i.findings) == 0 {
			t.Fatal("neither an object nor a reason")
		}
		if i.object != nil && (i.object.Key != i.key || i.object.Origin != origin || len(i.object.Annotations[lastApplied]) > 0) {
			t.Fatalf("%+v", i.object)
		}
		_ = metav1.Object(&i)
	})
}
