package controlplane

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/kube/condition"
	"github.com/sallyport/sallyport/config/source/kube/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/replicas"
	"github.com/sallyport/sallyport/xds/serve"
)

// TestEnforcement: what a policy's status says of its proxies.
func TestEnforcement(t *testing.T) {
	const policy = "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: checkout, namespace: shop}\nspec: {default: Deny"
	read := func(text string) *config.Object {
		r := decode.File("a.yaml", []byte(text))
		if len(r.Objects) != 1 {
			t.Fatal(r.Findings)
		}
		return &r.Objects[0]
	}
	o := read(policy + "}")
	for _, c := range []struct {
		name           string
		object         *config.Object
		e              enforcing
		status, reason string
	}{
		{"nobody looked", o, enforcing{Enforcement: serve.Enforcement{}}, "", ""},
		{"at another edition", o, enforcing{Enforcement: serve.Enforcement{Revision: "old", Selected: 1, Current: 1}}, "", ""},
		{"nobody is there", o, enforcing{Enforcement: serve.Enforcement{Revision: o.Revision}}, "False", "NoProxies"},
		{"one is behind", o, enforcing{Enforcement: serve.Enforcement{Revision: o.Revision, Selected: 2, Current: 1, Behind: "x"}}, "False", "Behind"},
		{"a replica says nothing", o, enforcing{Enforcement: serve.Enforcement{Revision: o.Revision, Selected: 2, Current: 2}, Unheard: "sallyport-2"}, "False", "Behind"},
		{"one refuses it", o, enforcing{Enforcement: serve.Enforcement{Revision: o.Revision, Selected: 2, Current: 1, Behind: "x", Refuses: "x", Refusal: "odd\nthing"}}, "False", "Refused"},
		{"a gateway's pod is not connected", o, enforcing{Enforcement: serve.Enforcement{Revision: o.Revision, Selected: 2, Current: 2}, Absent: "10.0.0.2 of istio-system/gw"}, "False", "GatewayNotConnected"},
		{"all have it", o, enforcing{Enforcement: serve.Enforcement{Revision: o.Revision, Selected: 2, Current: 2}}, "True", "Enforced"},
		{"one can end nothing", o, enforcing{Enforcement: serve.Enforcement{Revision: o.Revision, Selected: 2, Current: 2, Endless: 1, EndlessAt: "x"}}, "True", "Enforced"},
		{"observed", read(policy + ", mode: Observe}"), enforcing{Enforcement: serve.Enforcement{Revision: read(policy + ", mode: Observe}").Revision, Selected: 2, Current: 2}}, "False", "Observed"},
	} {
		got := enforcement(c.object, c.e)
		if got == nil {
			got = &condition.Condition{}
		}
		if got.Status != c.status || got.Reason != c.reason || (got.Type != condition.Enforced) != (c.status == "") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestWrittenBack: of a policy that says again what it said before another edition, proxies are heard anew, and what was said meanwhile does not count.
func TestWrittenBack(t *testing.T) {
	cfg := mesh.Default()
	statuses, err := status.New(&rest.Config{Host: "192.0.2.1"}, status.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{registry: registry.New(&cfg), known: newInventory(), cluster: &cluster{statuses: statuses}}
	r := decode.File("a.yaml", []byte("apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: checkout, namespace: shop}\nspec: {default: Deny}\n"))
	o := &r.Objects[0]
	written := []config.Change{{Key: o.Key, Object: o}}
	said := map[config.Key]enforcing{o.Key: {Enforcement: serve.Enforcement{Revision: o.Revision, Selected: 1, Current: 1}}}
	p.known.apply(written)
	s, changed := p.registry.Apply(written)
	p.snapshot.Store(s)
	write := func() {
		p.updateStatuses(func() map[config.Key]status.Details { return p.details(s, written, changed) })
	}
	heard := func() (d status.Details) {
		p.updateStatuses(func() map[config.Key]status.Details { d = p.noteEnforced(said)[o.Key]; return nil })
		return d
	}
	write()
	if list, edited := p.pendingPolicies(); len(list) != 1 || !edited {
		t.Errorf("written: %v %t", list, edited)
	}
	if d := heard(); d.Enforced == nil || d.Enforced.Status != "True" {
		t.Errorf("all have it: %+v", d)
	}
	if list, edited := p.pendingPolicies(); len(list) != 0 || edited {
		t.Errorf("all have it: %v %t", list, edited)
	}
	write()
	if d := heard(); d.Enforced != nil {
		t.Errorf("what was said before it was written back: %+v", d)
	}
	if list, _ := p.pendingPolicies(); len(list) != 1 {
		t.Errorf("written back: %v", list)
	}
	write()
	p.updateStatuses(func() map[config.Key]status.Details { return p.details(s, []config.Change{{Key: o.Key}}, changed) })
	if len(p.policies.edited)+len(p.policies.enforced) > 0 {
		t.Errorf("of a policy that is gone is left: %v %v", p.policies.edited, p.policies.enforced)
	}
}

// TestRefusalIsQuoted: a proxy's words are bounded, on one line, and nothing that a terminal would do.
func TestRefusalIsQuoted(t *testing.T) {
	for said, want := range map[string]string{"": "its words are about", "odd\n\tthing \x1b[2J\xff": `"odd thing \x1b[2J"`, strings.Repeat("é", 600): `é..."`} {
		if got := refusal(said); !strings.Contains(got, want) || len(got) > maxRefusal+2 {
			t.Errorf("%q is said as %s", said, got)
		}
	}
}

// TestSum: proxies of all replicas count, at the edition that this one has.
func TestSum(t *testing.T) {
	key := config.Key{Kind: config.KindEgressPolicy, Namespace: "shop", Name: "checkout"}
	own := map[config.Key]serve.Enforcement{key: {Revision: "r", Selected: 1, Current: 1}}
	other := func(name string, e serve.Enforcement) replicas.Said {
		return replicas.Said{Replica: name, Enforcements: map[config.Key]serve.Enforcement{key: e}}
	}
	for _, c := range []struct {
		name   string
		said   []replicas.Said
		silent map[string]error
		want   enforcing
	}{
		{"alone", nil, nil, enforcing{Enforcement: serve.Enforcement{Revision: "r", Selected: 1, Current: 1}}},
		{"two", []replicas.Said{other("b", serve.Enforcement{Revision: "r", Selected: 2, Current: 1, Behind: "x"})}, nil, enforcing{Enforcement: serve.Enforcement{Revision: "r", Selected: 3, Current: 2, Behind: "x"}}},
		{"one refuses", []replicas.Said{other("b", serve.Enforcement{Revision: "r", Selected: 1, Behind: "x", Refuses: "x", Refusal: "odd"})}, nil, enforcing{Enforcement: serve.Enforcement{Revision: "r", Selected: 2, Current: 1, Behind: "x", Refuses: "x", Refusal: "odd"}}},
		{"at another edition", []replicas.Said{other("b", serve.Enforcement{Revision: "old", Selected: 2, Current: 2})}, nil, enforcing{Enforcement: serve.Enforcement{Revision: "r", Selected: 1, Current: 1}, Unheard: "b"}},
		{"silent", nil, map[string]error{"b": context.DeadlineExceeded, "a": context.DeadlineExceeded}, enforcing{Enforcement: serve.Enforcement{Revision: "r", Selected: 1, Current: 1}, Unheard: "a"}},
	} {
		if got := sum(own, c.said, c.silent)[key]; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestEnforcementIsWatched: a policy's status follows what is connected, and what is gone is forgotten.
func TestEnforcementIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := mesh.Default()
		statuses, err := status.New(&rest.Config{Host: "192.0.2.1"}, status.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := &plane{registry: registry.New(&cfg), known: newInventory(), ready: make(chan struct{}), cluster: &cluster{statuses: statuses}}
		p.cache = serve.NewCache(p.registry.Snapshot())
		r := decode.File("a.yaml", []byte("apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: checkout, namespace: shop}\nspec: {default: Deny}\n"))
		o := &r.Objects[0]
		apply := func(c config.Change) {
			p.known.apply([]config.Change{c})
			s, changed := p.registry.Apply([]config.Change{c})
			p.snapshot.Store(s)
			p.cache.Publish(s, changed)
		}
		said := func() (d status.Details) {
			p.updateStatuses(func() map[config.Key]status.Details { d = p.policyDetails(o); return nil })
			return d
		}
		apply(config.Change{Key: o.Key, Object: o})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.watchEnforced(ctx) }()
		synctest.Wait()
		if d := said(); d.Enforced != nil || d.Proxies != nil {
			t.Errorf("before all is known: %+v", d)
		}
		close(p.ready)
		synctest.Wait()
		if d := said(); d.Enforced == nil || d.Enforced.Reason != "NoProxies" || *d.Proxies != (condition.Proxies{}) {
			t.Errorf("nobody is there: %+v", d)
		}
		apply(config.Change{Key: o.Key})
		time.Sleep(enforceEvery)
		synctest.Wait()
		if d := said(); d.Enforced != nil {
			t.Errorf("it is gone: %+v", d)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
