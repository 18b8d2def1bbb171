package controlplane

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
)

// TestCheckLooksAtEnough holds that objects which check does not look at change nothing of what it finds.
func TestCheckLooksAtEnough(t *testing.T) {
	cfg := mesh.Default()
	world := registrytest.NewWorld(5)
	v := newInventory()
	found := 0
	for range registrytest.Times(2000) {
		change := world.Change()
		if change.Object != nil {
			var all []config.Object
			for _, o := range world.Objects {
				all = append(all, *o)
			}
			want := slices.DeleteFunc(admission.Check(all, cfg), func(f admission.Finding) bool { return f.Key != change.Key })
			got := v.check(*change.Object, cfg)
			if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
				t.Fatalf("%s (-all +check):\n%s", change.Key, d)
			}
			found += len(got)
		}
		v.apply([]config.Change{change})
	}
	if found < registrytest.Times(100) {
		t.Errorf("only %d findings: this tries little", found)
	}
}

// TestCheckLooksAtPolicies holds the same of EgressPolicies, which are judged among those of their namespace, by whom they
// select and by what is registered.
func TestCheckLooksAtPolicies(t *testing.T) {
	read := decode.File("mesh.yaml", []byte(`
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {tier: web}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: vm, namespace: shop}, spec: {address: 10.0.0.1, labels: {app: vm}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: shop}
spec: {hosts: [api.example.com], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: first, namespace: shop, creationTimestamp: 2029-01-01T00:00:00Z}
spec: {rules: [{hosts: ["*.example.com"], action: Allow}]}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: second, namespace: shop, creationTimestamp: 2029-02-01T00:00:00Z}
spec: {rules: [{hosts: [api.example.com], action: Deny}, {hosts: [api.example.com], methods: [GET], action: Deny}]}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: nobody, namespace: shop}
spec: {default: Deny, selector: {matchLabels: {app: job}}}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: mesh, namespace: istio-system}
spec: {default: Deny, namespaces: {matchLabels: {tier: job}}}
`))
	found := map[string]int{}
	for key, n := range checkedAlike(t, read.Objects) {
		if key.Kind == config.KindEgressPolicy {
			found[key.Name] = n
		}
	}
	if want := map[string]int{"first": 1, "second": 3, "nobody": 1, "mesh": 1}; !maps.Equal(found, want) {
		t.Errorf("findings %v, want %v: %v", found, want, read.Findings)
	}
}

// TestCheckLooksAtSelected: the webhook knows who is selected by a ServiceEntry and by a Service, and what selects a WorkloadEntry.
func TestCheckLooksAtSelected(t *testing.T) {
	read := decode.File("mesh.yaml", []byte(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vm, namespace: shop}
spec: {hosts: [vm.test], exportTo: ["."], location: MESH_INTERNAL, resolution: STATIC, workloadSelector: {labels: {app: vm}}, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: nobody, namespace: empty}
spec: {hosts: [nobody.test], exportTo: ["."], location: MESH_INTERNAL, resolution: STATIC, workloadSelector: {labels: {app: vm}}, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: vm, namespace: shop}
spec: {address: vm.example, labels: {app: vm}, ports: {https: 443}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: unselected, namespace: shop}
spec: {address: 10.0.0.1, labels: {app: other}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: web}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.2]}]
ports: [{name: other, port: 80}]
`))
	found := map[string]int{}
	for key, n := range checkedAlike(t, read.Objects) {
		found[string(key.Kind)+" "+key.Name] = n
	}
	want := map[string]int{"ServiceEntry vm": 0, "ServiceEntry nobody": 1, "WorkloadEntry vm": 2, "WorkloadEntry unselected": 1, "Pod web": 0, "Service web": 1, "EndpointSlice web": 1}
	if !maps.Equal(found, want) {
		t.Errorf("findings %v, want %v: %v", found, want, read.Findings)
	}
}

// TestRelabelled: the pods that have other labels than before are named, and no others.
func TestRelabelled(t *testing.T) {
	v := newInventory()
	pod := func(name string, labels ...string) config.Change {
		o := &config.Object{Key: config.Key{Kind: config.KindPod, Namespace: "shop", Name: name}, Labels: map[string]string{}}
		for _, l := range labels {
			o.Labels[l] = "yes"
		}
		return config.Change{Key: o.Key, Object: o}
	}
	gone := pod("b")
	gone.Object = nil
	for i, step := range []struct {
		changes []config.Change
		want    map[string]map[string]string
	}{
		{[]config.Change{pod("a", "x"), pod("b", "x")}, nil},
		{[]config.Change{pod("a", "x"), pod("b")}, map[string]map[string]string{"b.shop": {}}},
		{[]config.Change{gone, pod("a", "x", "y"), pod("c")}, map[string]map[string]string{"a.shop": {"x": "yes", "y": "yes"}}},
		{[]config.Change{pod("b", "z")}, nil}, // another pod of that name
	} {
		if d := cmp.Diff(step.want, v.apply(step.changes)); d != "" {
			t.Errorf("step %d (-want +got):\n%s", i, d)
		}
	}
}

// TestCheckLooksAtClasses: the webhook knows the waypoints of a class that a policy of the root namespace targets, whatever namespaces they are of.
func TestCheckLooksAtClasses(t *testing.T) {
	read := decode.File("mesh.yaml", []byte(`
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: nothing, namespace: istio-system}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: GatewayClass, name: istio-waypoint}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: istio-system}
spec: {gatewayClassName: sallyport, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: calm}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
`))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	v := newInventory()
	for i, want := range []int{0, 1, 0} {
		v.apply([]config.Change{{Key: read.Objects[i].Key, Object: &read.Objects[i]}})
		if got := v.check(read.Objects[0], mesh.Default()); len(got) != want {
			t.Errorf("with %s: %v", read.Objects[i].Key, got)
		}
	}
}

// TestCheckLooksAtTargets: the webhook knows the Gateway that a policy targets.
func TestCheckLooksAtTargets(t *testing.T) {
	cfg := mesh.Default()
	objects := func(text string) []config.Object {
		f := decode.File("mesh.yaml", []byte(text))
		if len(f.Findings) > 0 {
			t.Fatal(f.Findings)
		}
		return f.Objects
	}
	policy := objects(`
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: read-only, namespace: calm}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: waypoint}]
  action: DENY
  rules: [{to: [{operation: {methods: [POST]}}]}]
`)[0]
	others := objects(`
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egressgateway}, clusterIP: 10.96.0.9, ports: [{name: https, port: 443}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: calm}
spec:
  gatewayClassName: istio-waypoint
  listeners: [{name: mesh, port: 15008, protocol: HBONE}]
`)
	cfg.DefaultGateway.Namespace, cfg.DefaultGateway.Name = "istio-system", "istio-egressgateway"
	refused := func(v *inventory) bool {
		return slices.ContainsFunc(v.check(policy, cfg), func(f admission.Finding) bool { return f.Severity == admission.Error })
	}
	v := newInventory()
	for i := range others {
		v.apply([]config.Change{{Key: others[i].Key, Object: &others[i]}})
		if got, want := refused(v), others[i].Kind == config.KindService; got != want {
			t.Errorf("with %s: refused %v", others[i].Key, got)
		}
	}
}

// checkedAlike holds what the webhook finds of each object to what is found among all, and counts it.
func checkedAlike(t *testing.T, objects []config.Object) map[config.Key]int {
	t.Helper()
	v, found := newInventory(), map[config.Key]int{}
	for i := range objects {
		v.apply([]config.Change{{Key: objects[i].Key, Object: &objects[i]}})
	}
	for _, o := range objects {
		want := slices.DeleteFunc(admission.Check(objects, mesh.Default()), func(f admission.Finding) bool { return f.Key != o.Key })
		got := v.check(o, mesh.Default())
		if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
			t.Errorf("%s (-all +check):\n%s", o.Key, d)
		}
		found[o.Key] = len(got)
	}
	return found
}
