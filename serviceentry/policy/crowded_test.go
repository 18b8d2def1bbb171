package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// belowMany is an entry for some hosts below *.many.test.
func belowMany(ns, name, gateway string, hosts ...string) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: %s, annotations: {egress.sallyport.io/gateway: %s}}
spec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 5432, name: tcp, protocol: TCP}]}
`, name, ns, gateway, strings.Join(hosts, ", "))
}

// ledMany is a VirtualService that denies /secret, has so many matches in all, and lets the rest through.
func ledMany(ns string, matches int) string {
	var rest []string
	for i := range matches - 2 {
		rest = append(rest, fmt.Sprintf("{uri: {exact: /%d}}", i))
	}
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: many, namespace: %s}
spec:
  hosts: ["*.many.test", named.other.test]
  http:
  - {match: [{uri: {prefix: /secret}}], directResponse: {status: 403}}
  - {match: [%s], route: [{destination: {host: end.test}}]}
  - {route: [{destination: {host: end.test}}]}
`, ns, strings.Join(rest, ", "))
}

func manyHosts(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("h%d.many.test", i))
	}
	return out
}

// TestCrowdedPatternsAreClosed: where a namespace registers more hosts below a pattern than go with the VirtualService's matches, nothing goes to these by it, and what it
// denies is not let through. All else goes on.
func TestCrowdedPatternsAreClosed(t *testing.T) {
	const matches = 600
	from := policy.Workload{Namespace: "shop", Name: "app"}
	for hosts, open := range map[int]bool{route.MostRows / matches: true, route.MostRows/matches + 1: false} {
		s := readFor(t, false, false, belowMany("shop", "a", "direct", manyHosts(0, 200)...), belowMany("shop", "b", "direct", manyHosts(200, hosts)...),
			belowMany("shop", "end", "direct", "end.test", "named.other.test", "another.test"), belowMany("near", "c", "direct", "x.many.test"), ledMany("shop", matches))
		for url, allowed := range map[string]bool{
			"http://h7.many.test/": open, "http://h300.many.test/7": open, "http://h7.many.test/secret": false,
			"tcp://h7.many.test:5432": true, "http://named.other.test/": true, "http://named.other.test/secret": false, "http://another.test/secret": true, "http://x.many.test/": true,
		} {
			v := policy.Decide(s, from, parse(t, url))
			if v.Allowed != allowed {
				t.Errorf("%d hosts, %s: %+v", hosts, url, v)
			}
			why := fmt.Sprintf("hosts: it tells proxies of %d matches for each host, and namespace shop registers more than %d hosts below its patterns", matches, route.MostRows/matches)
			if closed := !open && strings.Contains(url, "h7.many.test/"); closed && (!strings.Contains(v.Reason, why) || v.DecidedBy.Name != "many") {
				t.Errorf("%d hosts, %s: %+v", hosts, url, v)
			}
		}
	}
}

// TestCrowdingIsOnesOwn: whatever namespaces register below a pattern, and take back, what one asks for of another's is closed by that one's number alone.
func TestCrowdingIsOnesOwn(t *testing.T) {
	const matches, most = 4, 3
	for seed := range uint64(registrytest.Times(20)) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		cfg := mesh.Default()
		cfg.OutboundAllowAny = false
		r := registry.New(&cfg).Bounded(matches * most)
		apply := func(text string, there bool) { applyText(t, r, text, there) }
		gateway := []string{"direct", "istio-system/istio-egressgateway"}[seed%2]
		apply(belowMany("shop", "end", gateway, "end.test"), true)
		apply(belowMany("near", "end", gateway, "end.test"), true)
		has := map[string]map[int]bool{"shop": {}, "near": {}, "istio-system": {}}
		led := map[string]bool{}
		for range 60 {
			ns := []string{"shop", "near", "istio-system"}[rnd.IntN(3)]
			if rnd.IntN(8) == 0 {
				ns = []string{"shop", "near"}[rnd.IntN(2)]
				led[ns] = !led[ns]
				apply(ledMany(ns, matches), led[ns])
			} else {
				i := rnd.IntN(6)
				has[ns][i] = !has[ns][i]
				apply(belowMany(ns, fmt.Sprint("e", i), gateway, fmt.Sprintf("h%d.%s.many.test", i, ns)), has[ns][i])
			}
			for _, by := range []string{"shop", "near"} {
				for of, hosts := range has {
					n := 0
					for _, is := range hosts {
						if is {
							n++
						}
					}
					for i, is := range hosts {
						if !is {
							continue
						}
						counts := led[by] || led[of] // the asker's own comes first, and both are alike
						v := policy.Decide(r.Snapshot(), policy.Workload{Namespace: by, Name: "app"}, parse(t, fmt.Sprintf("http://h%d.%s.many.test/", i, of)))
						if want := !counts || n <= most; v.Allowed != want {
							t.Fatalf("seed %d: from %s to one of %d hosts of %s, routes %t: %+v", seed, by, n, of, counts, v)
						}
					}
				}
			}
		}
	}
}

// applyText applies the objects of a text, or takes them away.
func applyText(t *testing.T, r *registry.Registry, text string, there bool) {
	t.Helper()
	read := decode.File("objects.yaml", []byte(text))
	var changes []config.Change
	for i := range read.Objects {
		c := config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]}
		if !there {
			c.Object = nil
		}
		changes = append(changes, c)
	}
	if len(read.Findings) > 0 || len(changes) == 0 {
		t.Fatalf("%v\n%s", read.Findings, text)
	}
	r.Apply(changes)
}

// TestCrowdedRulesAreOnesOwn: whatever namespaces register below a DestinationRule's pattern, its subsets and its names of certificates do not count for those that register
// too much, and for the others they do. What would be sent to a subset, or without the names being asked for, is not sent.
func TestCrowdedRulesAreOnesOwn(t *testing.T) {
	const most, ports = 3, 2
	namespaces := []string{"shop", "near", "istio-system"}
	for seed := range uint64(registrytest.Times(20)) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		cfg := mesh.Default()
		cfg.OutboundAllowAny = false
		subsets := seed%3 != 0
		says, subset, bound := "trafficPolicy: {tls: {mode: SIMPLE, subjectAltNames: [a.test, b.test, c.test]}}", "", 3*ports*most
		if subsets {
			says, subset, bound = "subsets: [{name: s1}, {name: s2}, {name: s3}]", ", subset: s2", 4*ports*most
		}
		r := registry.New(&cfg).Bounded(bound)
		gateway := "direct"
		if seed%3 == 0 && seed%2 == 0 {
			gateway = "istio-system/istio-egressgateway"
		}
		for _, by := range namespaces[:2] {
			var routes []string
			for _, of := range namespaces {
				for i := range 6 {
					routes = append(routes, fmt.Sprintf("{match: [{uri: {prefix: /%d.%s/}}], route: [{destination: {host: h%d.%s.many.test%s}}]}", i, of, i, of, subset))
				}
			}
			if subsets {
				applyText(t, r, fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: front, namespace: %s}\nspec: {hosts: [front.test], http: [%s]}\n", by, strings.Join(routes, ", ")), true)
				applyText(t, r, belowMany(by, "front", "direct", "front.test"), true)
			}
		}
		has := map[string]map[int]bool{"shop": {}, "near": {}, "istio-system": {}}
		ruled := map[string]bool{}
		for range 60 {
			ns := namespaces[rnd.IntN(3)]
			if ns != "istio-system" && rnd.IntN(4) == 0 {
				ruled[ns] = !ruled[ns]
				applyText(t, r, fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: many, namespace: %s}\nspec: {host: '*.many.test', %s}\n", ns, says), ruled[ns])
			} else {
				i := rnd.IntN(6)
				has[ns][i] = !has[ns][i]
				applyText(t, r, belowMany(ns, fmt.Sprint("e", i), gateway, fmt.Sprintf("h%d.%s.many.test", i, ns)), has[ns][i])
			}
			for of, hosts := range has {
				n := 0
				for _, is := range hosts {
					if is {
						n++
					}
				}
				for i, is := range hosts {
					for _, by := range namespaces[:2] {
						if !is || gateway != "direct" && by != of { // a gateway does not follow rules of others
							continue
						}
						counts := ruled[by] || ruled[of]
						url, want := fmt.Sprintf("http://h%d.%s.many.test/", i, of), !counts || n <= most
						if subsets {
							url, want = fmt.Sprintf("http://front.test/%d.%s/", i, of), counts && n <= most
						}
						if v := policy.Decide(r.Snapshot(), policy.Workload{Namespace: by, Name: "app"}, parse(t, url)); v.Allowed != want {
							t.Fatalf("seed %d: from %s to one of %d hosts of %s, rules %t: %+v", seed, by, n, of, counts, v)
						}
					}
				}
			}
		}
	}
}
