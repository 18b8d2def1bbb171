package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
)

// times writes a text for each number below n, with commas between.
func times(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strings.ReplaceAll(format, "N", fmt.Sprint(i+1))
	}
	return strings.Join(list, ", ")
}

// TestWhatAnObjectComesTo: one object of some hundred kilobytes does not come to gigabytes of what proxies are told.
func TestWhatAnObjectComesTo(t *testing.T) {
	entry := func(hosts, ports, endpoints int) string {
		return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: x, namespace: a}\nspec: {location: MESH_EXTERNAL, resolution: STATIC, hosts: [" +
			times(hosts, "hN.test") + "], ports: [" + times(ports, "{number: N, name: pN, protocol: HTTP}") + "], endpoints: [" + times(endpoints, "{address: 198.51.100.7}") + "]}"
	}
	rule := func(subsets int) string {
		return "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: x, namespace: a}\nspec: {host: h1.test, subsets: [" + times(subsets, "{name: sN, labels: {v: N}}") + "]}"
	}
	named := func(names int) string {
		return strings.Replace(rule(1), "spec: {", "spec: {trafficPolicy: {tls: {mode: SIMPLE, subjectAltNames: ["+times(names, "nN.test")+"]}}, ", 1)
	}
	led := func(hosts, matches int) string {
		return "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: x, namespace: a}\nspec: {hosts: [" + times(hosts, "hN.test") + "], http: [{match: [" +
			times(matches, "{uri: {prefix: /N}}") + "], route: [{destination: {host: h1.test}}]}]}"
	}
	for _, c := range []struct {
		name, text, says string
	}{
		{"many hosts", led(4096, 64), ""},
		{"too many hosts", led(4097, 1), "too many hosts"},
		{"too many of both", led(512, 513), "proxies are told of all matches for each of them, at each gateway, 262656 times in all"},
		{"many gateways", strings.Replace(led(512, 1), "http:", "gateways: ["+times(512, "gN")+"], http:", 1), ""},
		{"too many gateways", strings.Replace(led(512, 1), "http:", "gateways: ["+times(513, "gN")+"], http:", 1), "at each gateway, 262656 times in all"},
		{"too many gateways of a match", strings.Replace(led(512, 1), "{uri: {prefix: /", "{gateways: ["+times(513, "gN")+"], uri: {prefix: /", 1), "at each gateway, 262656 times in all"},
		{"an entry with many endpoints", entry(1, 16, 4096), ""},
		{"an entry with many hosts", entry(256, 256, 1), ""},
		{"too many in all", entry(256, 2, 129), "proxies are told of each of them for each host at each port, 66048 times in all"},
		{"as many as there can be", entry(256, 256, 4096), "268435456 times in all"},
		{"too many names", strings.Replace(entry(256, 2, 1), "resolution:", "subjectAltNames: ["+times(129, "nN.test")+"], resolution:", 1), "spec.subjectAltNames: \"129\": proxies are told of each of them for each host at each port, 66048 times in all"},
		{"many subsets", rule(256), ""},
		{"too many subsets", rule(257), "too many subsets"},
		{"many names of a rule", named(256), ""},
		{"too many names of a rule", named(257), "spec.trafficPolicy.tls.subjectAltNames: \"257\": too many names"},
	} {
		r := decode.File("a.yaml", []byte(strings.ReplaceAll(c.text, "labels: {v: ", "labels: {v: l")))
		if len(r.Objects) != 1 {
			t.Fatalf("%s: %v", c.name, r.Findings)
		}
		var said []string
		for _, f := range admission.Validate(r.Objects[0]) {
			if f.Severity == admission.Error {
				said = append(said, f.String())
			}
		}
		if all := strings.Join(said, "\n"); (all == "") != (c.says == "") || !strings.Contains(all, c.says) {
			t.Errorf("%s: %q, want %q", c.name, all, c.says)
		}
	}
}

// TestTooManyDelegated: a VirtualService whose delegates bring more than counts is warned of.
func TestTooManyDelegated(t *testing.T) {
	r := decode.File("a.yaml", []byte("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: root, namespace: a}\nspec: {hosts: [a.com], http: [{match: ["+
		times(200, "{uri: {prefix: /}, method: {exact: MN}}")+"], delegate: {name: d}}]}\n---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: d, namespace: a}\nspec: {http: [{match: ["+
		times(100, "{uri: {prefix: /N}}")+"], route: [{destination: {host: a.com}}]}]}\n"))
	if len(r.Objects) != 2 {
		t.Fatal(r.Findings)
	}
	var said []string
	for _, f := range admission.Check(r.Objects, mesh.Default()) {
		said = append(said, f.String())
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{
		"VirtualService a/root: spec.http[0].delegate: \"a/d\": the delegates bring more than 16384 matches",
		"VirtualService a/d: spec.http: it has more matches, each with each of the route's that delegates, than there is room for at VirtualService a/root",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s\ndoes not say %s", all, want)
		}
	}
}

// TestTooManyAliases: of a namespace's Services of type ExternalName for one host those are warned of that do not count.
func TestTooManyAliases(t *testing.T) {
	var all strings.Builder
	for ns, n := range map[string]int{"a": 65, "b": 64} {
		for i := range n {
			fmt.Fprintf(&all, "---\napiVersion: v1\nkind: Service\nmetadata: {name: s%02d, namespace: %s}\nspec: {type: ExternalName, externalName: api.test}\n", i, ns)
		}
	}
	r := decode.File("a.yaml", []byte(all.String()))
	if len(r.Objects) != 65+64 {
		t.Fatal(r.Findings)
	}
	var said []string
	for _, f := range admission.Check(r.Objects, mesh.Default()) {
		if f.Field == "spec.externalName" {
			said = append(said, f.String())
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "Service a/s64: spec.externalName: \"api.test\": namespace a has more than 64 Services of type ExternalName") {
		t.Error(said)
	}
}

// TestTooManySubsets: a rule's subsets that come to too much with what an entry registers are said not to count.
func TestTooManySubsets(t *testing.T) {
	for _, c := range []struct {
		hosts, ports, subsets int
		host, gateway, says   string
	}{
		{100, 2, 256, "*.multi.test", "direct", ""},
		{256, 2, 256, "*.multi.test", "direct", "DestinationRule a/x: spec.subsets: \"256\": for h1.multi.test they come to 131584 clusters and endpoints"},
		{256, 2, 256, "h2.multi.test", "direct", "for h2.multi.test"},
		{256, 2, 256, "*.multi.test", "istio-system/out", ""},
		{256, 256, 1, "*.other.test", "direct", ""},
		{256, 256, 0, "*.multi.test", "direct", ""},
	} {
		text := "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: x, namespace: a, annotations: {egress.sallyport.io/gateway: " + c.gateway + "}}\nspec: {location: MESH_EXTERNAL, resolution: DNS, hosts: [" +
			times(c.hosts, "hN.multi.test") + "], ports: [" + times(c.ports, "{number: N, name: http-N, protocol: HTTP}") + "]}\n---\n" +
			"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: x, namespace: a}\nspec: {host: \"" + c.host + "\", subsets: [" + times(c.subsets, "{name: sN, labels: {v: lN}}") + "]}\n"
		r := decode.File("a.yaml", []byte(text))
		if len(r.Objects) != 2 {
			t.Fatal(r.Findings)
		}
		var said []string
		for _, f := range admission.Check(r.Objects, mesh.Default()) {
			if strings.Contains(f.Message, "none counts") {
				said = append(said, f.String())
			}
		}
		if all := strings.Join(said, "\n"); len(said) > 1 || (all == "") != (c.says == "") || !strings.Contains(all, c.says) {
			t.Errorf("%+v: %q", c, all)
		}
	}
}

// TestCrowdedPatterns: a VirtualService for a pattern that a namespace registers too many hosts below is warned of, and of that namespace.
func TestCrowdedPatterns(t *testing.T) {
	led := func(matches int) string {
		return "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: x, namespace: a}\nspec: {hosts: ['*.many.test'], http: [{match: [" + times(matches, "{uri: {prefix: /N}}") + "], route: [{destination: {host: n1.many.test}}]}]}\n"
	}
	entry := func(ns, host string) string {
		return "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: x, namespace: " + ns + "}\nspec: {location: MESH_EXTERNAL, resolution: DNS, hosts: [" + times(256, host) + "], ports: [{number: 80, name: http, protocol: HTTP}]}\n"
	}
	for _, c := range []struct {
		matches int
		others  string
		says    []string
	}{
		{1024, "", nil},
		{1025, "", []string{`spec.hosts: "*.many.test": it tells proxies of 1025 matches for each host, and namespace a registers more than 255 hosts below its patterns, so that none of these is made, and nothing goes to them by it`}},
		{1024, entry("b", "oN.many.test"), nil},
		{1025, entry("b", "oN.many.test"), []string{"namespace a ", "namespace b "}},
		{1025, entry("b", "nN.many.test"), []string{"namespace a ", "namespace b "}},
		{1025, entry("b", "nN.other.test"), []string{"namespace a "}},
	} {
		r := decode.File("a.yaml", []byte(led(c.matches)+entry("a", "nN.many.test")+c.others))
		if len(r.Findings) > 0 {
			t.Fatal(r.Findings)
		}
		var said []string
		for _, f := range admission.Check(r.Objects, mesh.Default()) {
			if strings.Contains(f.Message, "below its patterns") {
				said = append(said, f.String())
			}
		}
		if len(said) != len(c.says) {
			t.Errorf("%d matches: %q, want %q", c.matches, said, c.says)
			continue
		}
		for i, says := range c.says {
			if !strings.Contains(said[i], says) {
				t.Errorf("%d matches: %q, want %q", c.matches, said[i], says)
			}
		}
	}
}

// TestCrowdedRules: a DestinationRule for a pattern whose subsets, or names, are too many for what a namespace registers below it is warned of, and of that namespace.
func TestCrowdedRules(t *testing.T) {
	const meta = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: x, namespace: a}\nspec: {host: '*.many.test', "
	subsets := func(n int) string { return meta + "subsets: [" + times(n, "{name: sN}") + "]}\n" }
	names := func(n int) string {
		return meta + "trafficPolicy: {portLevelSettings: [{port: {number: 80}, tls: {mode: SIMPLE, subjectAltNames: [" + times(n, "nN.test") + "]}}]}}\n"
	}
	entry := func(ns, host, gateway string) string {
		return "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: x, namespace: " + ns + ", annotations: {egress.sallyport.io/gateway: " + gateway + "}}\nspec: {location: MESH_EXTERNAL, resolution: DNS, hosts: [" +
			times(256, host) + "], ports: [" + times(16, "{number: 8N, name: http-N, protocol: HTTP}") + "]}\n"
	}
	for _, c := range []struct {
		text string
		says []string
	}{
		{subsets(15) + entry("a", "nN.many.test", "direct"), nil}, // 16 × 4096 clusters
		{names(64) + entry("a", "nN.many.test", "direct"), nil},
		{names(65) + entry("a", "nN.many.test", "direct"), []string{"spec.trafficPolicy.tls: subjectAltNames: as many as 65 come to more than 262144 in all at all the ports that namespace a registers below the rule's host"}},
		{names(65) + entry("a", "nN.many.test", "istio-system/out"), []string{"namespace a registers"}}, // the gateway is told of names, too
		{names(65) + entry("a", "nN.many.test", "direct") + entry("b", "oN.many.test", "direct"), []string{"namespace a registers", "namespace b registers"}},
		{names(65) + entry("b", "nN.other.test", "direct"), nil},
	} {
		r := decode.File("a.yaml", []byte(c.text))
		if len(r.Findings) > 0 {
			t.Fatal(r.Findings)
		}
		var said []string
		for _, f := range admission.Check(r.Objects, mesh.Default()) {
			if strings.Contains(f.Message, "registers below") {
				said = append(said, f.String())
			}
		}
		if len(said) != len(c.says) {
			t.Errorf("%q, want %q", said, c.says)
			continue
		}
		for i, says := range c.says {
			if !strings.Contains(said[i], says) {
				t.Errorf("%q, want %q", said[i], says)
			}
		}
	}
	var many strings.Builder
	many.WriteString(subsets(31)) // an entry of 32 hosts and 16 ports comes to 16,384 clusters
	for i := range 17 {
		many.WriteString("---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " + fmt.Sprint("x", i) + ", namespace: a, annotations: {egress.sallyport.io/gateway: direct}}\nspec: {location: MESH_EXTERNAL, resolution: DNS, hosts: [" +
			times(32, fmt.Sprintf("nN.x%d.many.test", i)) + "], ports: [" + times(16, "{number: 8N, name: http-N, protocol: HTTP}") + "]}\n")
	}
	r := decode.File("a.yaml", []byte(many.String()))
	said := 0
	for _, f := range admission.Check(r.Objects, mesh.Default()) {
		if strings.Contains(f.Message, "its 31 subsets come to more than 262144 clusters at all the ports that namespace a registers below its host") && f.Field == "spec.subsets" {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d warnings of subsets, %v", said, r.Findings)
	}
}

// TestCrowdedGateways: a VirtualService that comes to too many matches at the ports, or for the names, of a namespace's Gateways is warned of.
func TestCrowdedGateways(t *testing.T) {
	led := func(hosts string, matches int) string {
		return "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: x, namespace: a}\nspec: {hosts: [" + hosts + "], gateways: [b/g, a/g], http: [{match: [" + times(matches, "{uri: {prefix: /N}}") + "], route: [{destination: {host: n1.many.test}}]}]}\n"
	}
	gateway := func(ns string, ports int, hosts string) string {
		return "---\napiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: g, namespace: " + ns + "}\nspec: {selector: {istio: in}, servers: [" + times(ports, "{port: {number: 1N, name: http-N, protocol: HTTP}, hosts: ["+hosts+"]}") + "]}\n"
	}
	for _, c := range []struct{ text, says string }{
		{led(times(128, "hN.test"), 128) + gateway("b", 64, "'*'") + gateway("a", 1, "'*'"), ""},
		{led(times(128, "hN.test"), 128) + gateway("b", 65, "'*'") + gateway("a", 1, "'*'"), "spec.gateways: it comes to more than 1048576 matches at the ports of Gateways of namespace b, where each is told for each name"},
		{led("'*'", 1024) + gateway("b", 2, times(512, "hN.test")), ""},
		{led("'*'", 1024) + gateway("b", 3, times(512, "hN.test")), "Gateways of namespace b"},
		{led("h1.test", 4096) + gateway("b", 1, times(512, "hN.test")), ""},
	} {
		r := decode.File("a.yaml", []byte(c.text))
		if len(r.Findings) > 0 {
			t.Fatal(r.Findings)
		}
		var said []string
		for _, f := range admission.Check(r.Objects, mesh.Default()) {
			if strings.Contains(f.Message, "it comes to more than") {
				said = append(said, f.String())
			}
		}
		if all := strings.Join(said, "\n"); len(said) > 1 || (all == "") != (c.says == "") || !strings.Contains(all, c.says) {
			t.Errorf("%.120s: %q, want %q", c.text, all, c.says)
		}
	}
}
