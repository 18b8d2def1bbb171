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
		known := map[config.Key]config.Object{}
		apply := func(text string, there bool) {
			read := decode.File("objects.yaml", []byte(text))
			var changes []config.Change
			for i := range read.Objects {
				o := &read.Objects[i]
				c := config.Change{Key: o.Key, Object: o}
				if known[o.Key] = *o; !there {
					c.Object = nil
				}
				changes = append(changes, c)
			}
			if len(read.Findings) > 0 || len(changes) == 0 {
				t.Fatalf("%v\n%s", read.Findings, text)
			}
			r.Apply(changes)
		}
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
