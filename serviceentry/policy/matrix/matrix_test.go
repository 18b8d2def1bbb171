package matrix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// read makes a snapshot of YAML, and gives its objects.
func read(t testing.TB, text string) (*registry.Snapshot, []*config.Object) {
	t.Helper()
	cfg := mesh.Default()
	result := decode.File("objects.yaml", []byte(text))
	for _, f := range result.Findings {
		t.Fatalf("%s\n%s", f, text)
	}
	var changes []config.Change
	var objects []*config.Object
	for i := range result.Objects {
		objects = append(objects, &result.Objects[i])
		changes = append(changes, config.Change{Key: result.Objects[i].Key, Object: &result.Objects[i]})
	}
	s, _ := registry.New(&cfg).Apply(changes)
	return s, objects
}

const hosts = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: hosts, namespace: shop}
spec:
  hosts: [a.test, b.test, "*.wild.test"]
  location: MESH_EXTERNAL
  resolution: NONE
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}, {number: 5432, name: tcp, protocol: TCP}]
`

// world is random pods and policies.
func world(rng *rand.Rand) string {
	var out strings.Builder
	out.WriteString(hosts)
	one := func(list ...string) string { return list[rng.IntN(len(list))] }
	for i := range 4 {
		fmt.Fprintf(&out, "---\n{apiVersion: v1, kind: Pod, metadata: {name: p%d, namespace: %s, labels: {app: %s}}, spec: {serviceAccountName: %s}, status: {podIP: 10.0.0.%d}}\n",
			i, one("shop", "legacy"), one("one", "two"), one("one", "two"), i+1)
	}
	for i := range 1 + rng.IntN(4) {
		fmt.Fprintf(&out, "---\napiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: e%d, namespace: %s}\nspec:\n%s%s%s  rules:\n",
			i, one("shop", "legacy", "istio-system"), one("", "  selector: {matchLabels: {app: one}}\n"), one("", "  serviceAccounts: [one]\n"), one("", "", "  default: Deny\n", "  mode: Observe\n"))
		for j := range 1 + rng.IntN(4) {
			fmt.Fprintf(&out, "  - {name: r%d, action: %s%s%s%s%s%s}\n", j, one("Allow", "Deny"), one("", ", hosts: [a.test]", `, hosts: ["*.test"]`), one("", "", ", ports: [80]"),
				one("", ", methods: [GET]", ", methods: [POST, GET]"), one("", ", paths: [/a/*]", `, paths: ["/**"]`, `, paths: [/a/b, "/c/**"]`), one("", "", ", headers: [{name: x, value: y*}]"))
		}
	}
	return out.String()
}

// requests are some of every sort that the world's rules tell apart.
func requests(d policy.Destination) (out []policy.Destination) {
	for _, d.Method = range []string{"GET", "POST", "PUT"} {
		for _, d.Path = range []string{"/", "/a/z", "/a/b", "/c/d/e", "/f"} {
			for _, d.Headers = range []map[string][]string{nil, {"x": {"yes"}}, {"x": {"no"}}} {
				out = append(out, d)
			}
		}
	}
	return out
}

// TestCellsAreDecide: a cell says what Decide says, of every sort of request; and what depends, does.
func TestCellsAreDecide(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		text := world(rng)
		s, objects := read(t, text)
		var cells []Cell
		at := time.Unix(1e9, 0)
		for _, subject := range Subjects(s, objects) {
			cells = append(cells, WhatCan(s, subject.workload(), at, 1000).Cells...)
		}
		for _, host := range []string{"a.test", "n.wild.test", "nobody.test"} {
			cells = append(cells, WhoCan(s, Subjects(s, objects), host, 0, at, 1000).Cells...)
		}
		for _, c := range cells {
			seen[c.Verdict+" "+c.Protocol]++
			said := map[bool]bool{}
			scheme := map[string]policy.Scheme{"HTTP": policy.HTTP, "TLS": policy.HTTPS, "TCP": policy.TCP}[c.Protocol]
			for _, d := range requests(target{c.Host, c.Port, scheme}.destination(at)) {
				v := policy.Decide(s, c.Subject.workload(), d)
				said[v.Allowed] = true
				if c.Verdict == Allow && !v.Allowed || c.Verdict == Deny && v.Allowed {
					t.Fatalf("seed %d: %s %s:%d is %s, but of %s %s: %s\n%s", seed, c.Subject, c.Host, c.Port, c.Verdict, d.Method, d.Path, v.Reason, text)
				}
			}
			if c.Verdict == Depends && (len(c.DependsOn) == 0 || len(c.By) < 2 || len(said) < 2) {
				t.Errorf("seed %d: %+v: %v\n%s", seed, c, said, text)
			}
		}
	}
	for _, sort := range []string{"allow HTTP", "deny HTTP", "depends HTTP", "allow TLS", "deny TLS", "allow TCP", "deny TCP"} {
		if seen[sort] == 0 {
			t.Errorf("%s was never tried: %v", sort, seen)
		}
	}
}

// TestSubjectsAreComplete: every workload is in one subject, and Decide's policies are the same for all in it.
func TestSubjectsAreComplete(t *testing.T) {
	for seed := range uint64(50) {
		s, objects := read(t, world(rand.New(rand.NewPCG(seed, 2))))
		subjects := Subjects(s, objects)
		for _, o := range objects {
			w, ok := workloadOf(o)
			if !ok {
				continue
			}
			var in []Subject
			for _, subject := range subjects {
				if subject.Namespace == w.Namespace && slices.Contains(subject.Workloads, o.Name) {
					in = append(in, subject)
				}
			}
			if len(in) != 1 {
				t.Fatalf("seed %d: %s is in %v", seed, o.Key, in)
			}
			mine, theirs := s.PolicySet(w.Namespace, w.Account, w.Labels), s.PolicySet(w.Namespace, in[0].Account, in[0].Labels)
			if !slices.Equal(mine.Root, theirs.Root) || !slices.Equal(mine.Own, theirs.Own) {
				t.Errorf("seed %d: %s is governed otherwise than %v", seed, o.Key, in[0])
			}
		}
	}
}

// TestProbesAreBounded: of rules that tell more requests apart than are tried, the answer is that it depends.
func TestProbesAreBounded(t *testing.T) {
	var paths []string
	for i := range 60 {
		paths = append(paths, fmt.Sprintf("/p%d", i))
	}
	s, _ := read(t, hosts+fmt.Sprintf(`---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: e, namespace: shop}
spec:
  default: Allow
  rules: [{name: r, action: Allow, methods: [GET, POST, PUT, HEAD, PATCH, TRACE, DELETE, OPTIONS], paths: [%s]}]
`, strings.Join(paths, ", ")))
	if m := WhoCan(s, []Subject{{Namespace: "shop", Account: "default"}}, "a.test", 80, time.Unix(1e9, 0), 10); len(m.Cells) != 1 || m.Cells[0].Verdict != Depends {
		t.Errorf("%+v", m)
	}
}

// BenchmarkWhatCan is one workload, and a thousand hosts.
func BenchmarkWhatCan(b *testing.B) {
	var text strings.Builder
	text.WriteString(world(rand.New(rand.NewPCG(1, 1))))
	for i := range 1000 {
		fmt.Fprintf(&text, "---\n{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: h%d, namespace: shop}, spec: {hosts: [h%d.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}}\n", i, i)
	}
	s, objects := read(b, text.String())
	subject := Subjects(s, objects)[0]
	for b.Loop() {
		WhatCan(s, subject.workload(), time.Unix(1e9, 0), 10_000)
	}
}

// TestAuthorizationInCells: what a gateway's AuthorizationPolicies tell apart by the request is said to depend on that.
func TestAuthorizationInCells(t *testing.T) {
	s, _ := read(t, hosts+`---
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egressgateway}, ports: [{name: tls, port: 443}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: admin, namespace: istio-system}
spec: {selector: {matchLabels: {istio: egressgateway}}, action: DENY, rules: [{to: [{operation: {paths: [/admin], hosts: [a.test], ports: ["80"]}}]}]}
`)
	for host, want := range map[string]string{"a.test": "depends on path", "b.test": Allow} {
		if got := decide(s, Subject{Namespace: "shop"}, target{host: host, port: 80, scheme: policy.HTTP}, time.Time{}).Words(); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}
