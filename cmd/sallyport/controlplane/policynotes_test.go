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

// TestRoutesAreJudged: what lint says of routes and of policies of requests is in their statuses, too, and follows what others register.
func TestRoutesAreJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const service = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: %s, port: 80, targetPort: 8080}]}
`
		const objects = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec: {hosts: [web.shop.svc.cluster.local], tcp: [{match: [{port: 80}], route: [{destination: {host: web.shop.svc.cluster.local}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, action: DENY, rules: [{to: [{operation: {ports: ["80"]}}]}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, portLevelMtls: {"80": {mode: DISABLE}}}
`
		cfg := mesh.Default()
		statuses, err := status.New(&rest.Config{Host: "192.0.2.1"}, status.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := &plane{registry: registry.New(&cfg), known: newInventory(), ready: make(chan struct{}), cluster: &cluster{statuses: statuses}}
		var told map[config.Key]status.Details
		apply := func(text string) {
			changes := written(t, text)
			p.known.apply(changes)
			s, changed := p.registry.Apply(changes)
			p.snapshot.Store(s)
			p.updateStatuses(func() map[config.Key]status.Details { told = p.details(s, changes, changed); return told })
		}
		said := func(kind config.Kind) string {
			var d status.Details
			p.updateStatuses(func() map[config.Key]status.Details {
				d = p.judgedDetails(p.snapshot.Load(), p.known.get(config.Key{Kind: kind, Namespace: "shop", Name: "web"}))
				return nil
			})
			return fmt.Sprint(d.Warnings)
		}
		apply(fmt.Sprintf(service, "http"))
		apply(objects)
		for key, d := range told {
			if !d.Unjudged {
				t.Errorf("%s is taken for judged: %+v", key, d)
			}
		}
		if len(told) != 3 {
			t.Errorf("details of %d objects", len(told))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.judgePolicies(ctx) }()
		close(p.ready)
		synctest.Wait()
		for kind, want := range map[config.Kind]string{config.KindVirtualService: "spec.tcp[0]", config.KindAuthorizationPolicy: "write 8080", config.KindPeerAuthentication: "write 8080"} {
			if got := said(kind); !strings.Contains(got, want) {
				t.Errorf("%s: %s", kind, got)
			}
		}
		apply(strings.ReplaceAll(fmt.Sprintf(service, "tcp"), "8080", "80"))
		time.Sleep(judgeEvery)
		synctest.Wait()
		for _, kind := range []config.Kind{config.KindVirtualService, config.KindAuthorizationPolicy, config.KindPeerAuthentication} {
			if got := said(kind); got != "[]" {
				t.Errorf("%s, now that the port is so: %s", kind, got)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
