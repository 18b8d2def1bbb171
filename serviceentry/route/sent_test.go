package route

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

func TestSent(t *testing.T) {
	prefix, exact := NewText(Prefix, "/a"), NewText(Exact, "/a/b")
	for _, x := range []struct {
		name    string
		rewrite *Rewrite
		match   *HTTPMatch
		path    string
		want    string
	}{
		{"prefix", &Rewrite{URI: "/z"}, &HTTPMatch{URI: &prefix}, "/a/b?q=/a", "/z/b?q=/a"},
		{"whole", &Rewrite{URI: "/z"}, &HTTPMatch{URI: &exact}, "/a/b?q", "/z?q"},
		{"any", &Rewrite{URI: "/z/"}, &HTTPMatch{}, "/a/b", "/z/a/b"},
		{"expression", &Rewrite{Regex: NewRegexRewrite("/(.)/(.*)", `/\2/\1$`)}, &HTTPMatch{}, "/a/b", "/b/a$"},
		{"host alone", &Rewrite{Authority: "x.test"}, &HTTPMatch{}, "/a/b", "/a/b"},
		{"of the Gateway API", &Rewrite{Regex: replacePath(&gatewayv1.HTTPPathModifier{Type: gatewayv1.FullPathHTTPPathModifier, ReplaceFullPath: new("/whole")}, nil)}, &HTTPMatch{}, "/a/b?q", "/whole?q"},
	} {
		h := &HTTP{Rewrite: x.rewrite}
		if got := h.Sent(x.match, 0, Request{Path: x.path}).Path; got != x.want {
			t.Errorf("%s: %s, want %s", x.name, got, x.want)
		}
	}
	h := &HTTP{
		Headers:      Headers{Request: HeaderOps{Set: []Header{{"x-a", "100%%"}}, Remove: []string{"x-b"}}},
		Destinations: []HTTPDestination{{}, {Headers: Headers{Request: HeaderOps{Add: []Header{{"x-b", "2"}, {"x-c", "2"}}}}}},
	}
	before := map[string][]string{"x-b": {"1"}, "x-c": {"1"}}
	for i, want := range []map[string][]string{{"x-a": {"100%"}, "x-c": {"1"}}, {"x-a": {"100%"}, "x-c": {"1", "2"}}} {
		if diff := cmp.Diff(want, h.Sent(nil, i, Request{Headers: before}).Headers); diff != "" {
			t.Errorf("destination %d: %s", i, diff)
		}
	}
	if len(before["x-c"]) != 1 || len(before) != 2 {
		t.Errorf("the request's own headers became %v", before)
	}
}
