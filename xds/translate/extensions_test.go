package translate_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/translate"
)

// discovered goes through what messages take from resources of their own, by these resources' names.
func discovered(message any, f func(name string)) {
	switch m := message.(type) {
	case map[string]any:
		if _, elsewhere := m["configDiscovery"]; elsewhere {
			f(m["name"].(string))
		}
		for _, inner := range m {
			discovered(inner, f)
		}
	case []any:
		for _, inner := range m {
			discovered(inner, f)
		}
	}
}

func taken(t *testing.T, raw json.RawMessage) []string {
	t.Helper()
	var message any
	if err := json.Unmarshal(raw, &message); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	discovered(message, func(name string) { out[name] = true })
	return slices.Sorted(maps.Keys(out))
}

// governed is the case with policies of both levels, and what its proxy has of listeners and extensions.
func (c testCase) governed(t *testing.T) (police translate.PolicyClass, listeners, extensions map[string]json.RawMessage) {
	t.Helper()
	c.objects = slices.Clone(c.objects)
	for _, ns := range []string{c.mesh.RootNamespace, "shop"} {
		c.objects = append(c.objects, *policyAt(ns, 0, 1).Object)
	}
	s := c.snapshot()
	police = translate.PolicedBy(s, c.node)
	dump, err := translate.Dump(c.view(), translate.BuildPolicies(s, police))
	if err != nil {
		t.Fatal(err)
	}
	return police, dump["listeners"], dump["extensions"]
}

// TestExtensionsAreServed holds that what a listener takes from elsewhere is given to whoever has the listener: one that is not given keeps a listener
// from ever opening, also where the filter is off.
func TestExtensionsAreServed(t *testing.T) {
	kinds, some := map[translate.Kind]bool{}, 0
	for name, c := range cases(t) {
		police, listeners, extensions := c.governed(t)
		kinds[police.Kind] = true
		for _, from := range []map[string]json.RawMessage{listeners, extensions} {
			for who, raw := range from {
				for _, extension := range taken(t, raw) {
					if some++; extensions[extension] == nil {
						t.Errorf("%s: %s takes %s, which is not served", name, who, extension)
					}
				}
			}
		}
	}
	if some == 0 || !kinds[translate.Sidecar] || !kinds[translate.Gateway] || !kinds[translate.Waypoint] || !kinds[translate.Ambient] || !kinds[translate.Ingress] {
		t.Errorf("%d extensions are taken, by the kinds %v", some, kinds)
	}
}

// chainsOf are a listener's filter chains, and what else it is.
func chainsOf(t *testing.T, raw json.RawMessage) (chains []json.RawMessage, rest string) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(fields["filterChains"], &chains); err != nil {
		t.Fatal(err)
	}
	delete(fields, "filterChains")
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return chains, string(text)
}

// TestNoLeadingChainOutlivesItsListener holds that no chain with a filter that leads to other extensions is handed on from one edition of a listener to
// the next one, at which Envoy crashes (TestNodePoliciesOutliveListeners): where a chain of that listener changes, it changes too, or the listener is
// made anew.
func TestNoLeadingChainOutlivesItsListener(t *testing.T) {
	registrytest.InOneGoroutine(t)
	settings := map[string]func(*mesh.Config){
		"trust domain": func(m *mesh.Config) { m.TrustDomain = "other.domain" },
		"connect":      func(m *mesh.Config) { m.ConnectTimeout = 7 * time.Second },
		"any":          func(m *mesh.Config) { m.OutboundAllowAny = !m.OutboundAllowAny },
		"mutual TLS":   func(m *mesh.Config) { m.MutualTLS = !m.MutualTLS },
	}
	compared := 0 // chains that lead to others
	for name, c := range cases(t) {
		_, was, extensions := c.governed(t)
		editions := map[string]testCase{}
		bare := c
		bare.objects = nil
		editions["without objects"] = bare
		for what, set := range settings {
			other := c
			set(&other.mesh)
			editions[what] = other
		}
		for what, edition := range editions {
			_, now, _ := edition.governed(t)
			for listener, raw := range was {
				if now[listener] == nil || bytes.Equal(raw, now[listener]) {
					continue
				}
				before, rest := chainsOf(t, raw)
				after, others := chainsOf(t, now[listener])
				if rest != others {
					continue // a listener of its own
				}
				for _, chain := range before {
					leads := slices.ContainsFunc(taken(t, chain), func(e string) bool { return extensions[e] != nil && len(taken(t, extensions[e])) > 0 })
					if !leads {
						continue
					}
					if compared++; slices.ContainsFunc(after, func(o json.RawMessage) bool { return bytes.Equal(o, chain) }) {
						t.Errorf("%s, %s: a chain of the listener %s leads to others, and is handed on", name, what, listener)
					}
				}
			}
		}
	}
	if compared == 0 {
		t.Error("no listener changed whose chains lead to others")
	}
}
