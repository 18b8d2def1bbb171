package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestLedAlready: what a gateway opens follows VirtualServices that lead, from a Gateway with all hosts, what another namespace's Gateway names; others change nothing about it.
func TestLedAlready(t *testing.T) {
	gateway := func(id, created, hosts string) string {
		ns, name, _ := strings.Cut(id, "/")
		return fmt.Sprintf("---\napiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: %s, namespace: %s, creationTimestamp: \"%s-01-01T00:00:00Z\"}\nspec: {selector: {istio: in}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [%s]}]}\n", name, ns, created, hosts)
	}
	routes := func(id, created, hosts, gateways, more string) string {
		return strings.Replace(virtualYAML(id, hosts, "gateways: ["+gateways+"]\nhttp: [{directResponse: {status: 410}}]\n"+more), "metadata: {", "metadata: {creationTimestamp: \""+created+"-01-01T00:00:00Z\", ", 1)
	}
	w := newWorld(t, gateway("in/shared", "2020", "'*'"), gateway("b/x", "2025", "pay.test, '*.w.test', free.test"), routes("b/x", "2025", "pay.test, x.w.test, free.test", "x", ""))
	hosts := func() (out []string) {
		for _, o := range w.Snapshot().Opened(registry.Ingress{Namespace: "in", Labels: "istio=in"}).Of("b/x") {
			for _, f := range o.Hosts {
				out = append(out, f.Host)
			}
		}
		return out
	}
	all, free := []string{"pay.test", "*.w.test", "free.test"}, []string{"free.test"}
	if got := hosts(); !slices.Equal(got, all) {
		t.Fatalf("%q are opened", got)
	}
	for _, c := range []struct {
		what, text string
		want       []string
		gateways   bool // what is opened is looked at again
	}{
		{"it leads two", routes("a/v", "2021", "pay.test, a.w.test", "in/shared", ""), free, true},
		{"it leads others", routes("a/v", "2021", "other.test, '*.other.test'", "in/shared", ""), all, true},
		{"still", routes("a/v", "2021", "other.test", "in/shared", ""), all, false},
		{"by a pattern", routes("a/v", "2021", "'*.test'", "in/shared", ""), nil, true},
		{"all that nobody leads", routes("a/v", "2021", "'*'", "in/shared", ""), all, true},
		{"it is younger", routes("a/w", "2026", "pay.test", "in/shared", ""), all, true},
		{"it is kept from the gateway", routes("a/v", "2021", "pay.test", "in/shared", "exportTo: ['.']"), all, true},
		{"it is bound to the Gateway, too", routes("a/v", "2021", "pay.test", "in/shared, b/x", ""), all, true},
		{"it is bound to nothing that is there", routes("a/v", "2021", "pay.test", "in/none", ""), all, true},
		{"it is the pods' namespace's", routes("in/v", "2026", "pay.test", "shared", ""), []string{"*.w.test", "free.test"}, true},
	} {
		changed := w.apply(c.text)
		if got := hosts(); !slices.Equal(got, c.want) || changed.Gateways != c.gateways {
			t.Errorf("%s: %q are opened, want %q; looked at again: %v", c.what, got, c.want, changed.Gateways)
		}
		if c.gateways && slices.Contains(c.want, "pay.test") && !slices.Contains(changed.Names, "pay.test") {
			t.Errorf("%s: of names %q changed", c.what, changed.Names)
		}
	}
	changed := w.remove(routes("in/v", "2026", "pay.test", "shared", ""))
	if got := hosts(); !slices.Equal(got, all) || !slices.Contains(changed.Names, "pay.test") {
		t.Errorf("it is gone: %q are opened; %q changed", got, changed.Names)
	}
	w.apply(routes("a/w", "2026", "pay.test", "in/none", ""))
	changed = w.apply(routes("a/v", "2021", "a.w.test", "in/shared", ""))
	if !slices.Contains(changed.Names, "x.w.test") {
		t.Errorf("what the Gateway's own routes lead below the pattern: %q changed", changed.Names)
	}
}
