package controlplane

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/kube/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestPoliciesAreJudgedAgain: what is said of a policy follows what others register, and time.
func TestPoliciesAreJudgedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const policy = `
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: checkout, namespace: shop}
spec: {rules: [{hosts: [api.example.com], action: Allow, expires: %s}]}
`
		const entry = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: shop}
spec: {hosts: [api.example.com], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
`
		cfg := mesh.Default()
		statuses, err := status.New(&rest.Config{Host: "192.0.2.1"}, status.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := &plane{registry: registry.New(&cfg), known: newInventory(), ready: make(chan struct{}), cluster: &cluster{statuses: statuses}}
		apply := func(text string) {
			read := decode.File("a.yaml", []byte(text))
			if len(read.Objects) != 1 {
				t.Fatal(read.Findings)
			}
			changes := []config.Change{{Key: read.Objects[0].Key, Object: &read.Objects[0]}}
			p.known.apply(changes)
			s, changed := p.registry.Apply(changes)
			p.snapshot.Store(s)
			p.updateStatuses(func() map[config.Key]status.Details { return p.details(s, changes, changed) })
		}
		key := config.Key{Kind: config.KindEgressPolicy, Namespace: "shop", Name: "checkout"}
		said := func() string {
			var text string
			p.updateStatuses(func() map[config.Key]status.Details {
				d := p.policyDetails(p.known.get(key))
				if text = fmt.Sprint(d.Warnings); d.Unjudged {
					text = "unjudged"
				}
				if d.Rules != 1 || d.Revision != p.known.get(key).Revision {
					t.Errorf("details %+v", d)
				}
				return nil
			})
			return text
		}

		apply(fmt.Sprintf(policy, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.judgePolicies(ctx) }()
		synctest.Wait()
		if got := said(); got != "unjudged" {
			t.Errorf("before all is known: %s", got)
		}
		close(p.ready)
		synctest.Wait()
		if got := said(); !strings.Contains(got, "no ServiceEntry that the workloads see has this host") {
			t.Errorf("not registered: %s", got)
		}
		apply(entry)
		time.Sleep(judgeEvery)
		synctest.Wait()
		if got := said(); got != "[]" {
			t.Errorf("registered: %s", got)
		}
		time.Sleep(time.Hour + judgeAnyway)
		synctest.Wait()
		if got := said(); !strings.Contains(got, "the rule has ended") {
			t.Errorf("ended: %s", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		var again map[config.Key]status.Details
		p.updateStatuses(func() map[config.Key]status.Details { again = p.forgetNotes(); return again })
		if got := said(); got != "unjudged" || !again[key].Unjudged {
			t.Errorf("when it leads again: %s, %+v", got, again)
		}
		p.updateStatuses(func() map[config.Key]status.Details {
			again = p.notePolicies(map[config.Key][]admission.Finding{})
			return again
		})
		if d, told := again[key]; !told || d.Unjudged {
			t.Errorf("it is judged, and nothing is odd: %v %+v", told, d)
		}
	})
}
