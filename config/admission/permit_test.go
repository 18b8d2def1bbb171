package admission_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// pick gives one of some values, and some gives up to two of them.
func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func some[T any](r *rand.Rand, all ...T) (out []T) {
	for range r.IntN(3) {
		out = append(out, pick(r, all...))
	}
	return out
}

// TestCoversAgrees: what a rule is said to cover it matches, at random.
func TestCoversAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	times := []*timestamppb.Timestamp{nil, nil, timestamppb.New(now.Add(-time.Hour)), timestamppb.New(now.Add(time.Hour)), timestamppb.New(now.Add(2 * time.Hour))}
	rule := func() *v1alpha1.Rule {
		x := &v1alpha1.Rule{
			Hosts: some(r, "a.x.com", "*.x.com", "*.a.x.com", "x.com", "*", "192.0.2.1"), Ports: some[uint32](r, 80, 443),
			Protocols: some(r, "HTTP", "TLS", "TCP"), Action: pick(r, v1alpha1.Action_Allow, v1alpha1.Action_Deny),
			NotBefore: pick(r, times...), Expires: pick(r, times...),
		}
		if r.IntN(2) == 0 {
			x.Protocols, x.Methods, x.Paths = nil, some(r, "GET", "PUT"), some(r, "/", "/a", "/a/", "/**", "/a/**", "/**/b", "/a/*", "/*", "/a*", "/a/*/b", "/a/**/b")
			for _, v := range some(r, "*", "1", "1*") {
				x.Headers = append(x.Headers, &v1alpha1.HeaderMatch{Name: pick(r, "A", "b"), Value: v})
			}
		}
		return x
	}
	covered, matched := 0, 0
	for range 100000 {
		a, b := rule(), rule()
		if !admission.Covers(a, b, now) {
			continue
		}
		covered++
		p := egresspolicy.FromSpec(&config.Object{}, &v1alpha1.EgressPolicy{Rules: []*v1alpha1.Rule{a, b}})
		for range 60 {
			headers := map[string]string{"a": pick(r, "1", "12", "2"), "b": pick(r, "1", "2")}
			asked := &egresspolicy.Attempt{
				Host: pick(r, "a.x.com", "b.a.x.com", "x.com", "y.com", "192.0.2.1"), Port: pick[uint32](r, 80, 443, 1), Protocol: pick(r, egresspolicy.HTTP, egresspolicy.TLS, egresspolicy.TCP),
				Method: pick(r, "GET", "PUT", "POST"), Path: pick(r, "/", "/a", "/A", "/a/", "/a/b", "/a/b/", "/ab", "/a/c/b", "/c/b", "/a/c/d/b", "/b"),
				Header: func(n string) (string, bool) { v, ok := headers[n]; return v, ok }, At: now.Add(pick(r, 0, time.Minute, 90*time.Minute, 3*time.Hour)),
			}
			if p.Rules[1].Matches(asked) {
				matched++
				if !p.Rules[0].Matches(asked) {
					t.Fatalf("%v\ndoes not cover\n%v:\n%+v", a, b, asked)
				}
			}
		}
	}
	if covered < 1000 || matched < 1000 {
		t.Errorf("%d pairs are covered, with %d matches: this tries little", covered, matched)
	}
}

// FuzzNormalAgrees: of paths without wildcards, those are taken that requests can have in normal form.
func FuzzNormalAgrees(f *testing.F) {
	for _, s := range []string{"/", "/a/..;x/b", "/%2e%2E/", "/a%2f..%5c/;", `/\a/./../`, "/.;a", "/%c3%a9", "/%7e%41", "/..", "/a/.", "/%", "/%25", "/%00", "/%0a", "/%c0%af", "/%e0%80%af", "/%7F"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		other := func(c rune) bool { return c <= ' ' || c >= unicode.MaxASCII || strings.ContainsRune("*?#", c) }
		if strings.IndexFunc(s, other) >= 0 || len(s) > 1024 {
			return
		}
		o := config.Object{Key: config.Key{Kind: config.KindEgressPolicy, Namespace: "a", Name: "a"}, Spec: &v1alpha1.EgressPolicy{Rules: []*v1alpha1.Rule{{Action: v1alpha1.Action_Allow, Paths: []string{s}}}}}
		taken, broken := !admission.Refused(admission.Validate(o)), regexp.MustCompile(`%(?:.?$|[^0-9A-Fa-f]|.[^0-9A-Fa-f])`).MatchString(s)
		if taken != (egresspolicy.IsNormal(s) && !broken) {
			t.Fatalf("%q: taken %v, normal %v", s, taken, egresspolicy.IsNormal(s))
		}
	})
}
