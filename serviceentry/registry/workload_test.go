package registry_test

import (
	"fmt"
	"slices"
	"testing"
)

const (
	vmService = `
apiVersion: v1
kind: Service
metadata: {name: vms, namespace: shop}
spec: {clusterIP: 10.96.0.77, selector: {app: vm}, ports: [{name: http, port: 80, targetPort: 8080}]}
`
	vmSlice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: vms-1, namespace: shop, labels: {kubernetes.io/service-name: vms}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.0.0.5]}]
`
)

func vmEntry(resolution string) string {
	return `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vms, namespace: shop}
spec:
  hosts: [vms.test]
  location: MESH_INTERNAL
  resolution: ` + resolution + `
  workloadSelector: {labels: {app: vm}}
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
`
}

func vm(name, namespace, meta, spec string) string {
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: %s, namespace: %s, labels: {%s}}\nspec: {%s}\n", name, namespace, meta, spec)
}

// TestWorkloads: Services and ServiceEntries select WorkloadEntries of their namespace, as they select pods.
func TestWorkloads(t *testing.T) {
	w := newWorld(t, vmService, vmSlice, vmEntry("STATIC"))
	endpoints := func(host string) (out []string) {
		svc := w.Snapshot().Services(host)[0]
		for _, e := range w.Snapshot().EndpointsOf(svc) {
			out = append(out, fmt.Sprintf("%s:%d %s %d", e.Address, e.PortOf(svc.Ports[0]), e.ServiceAccount, e.Weight))
		}
		return out
	}
	const service = "vms.shop.svc.cluster.local"
	for _, step := range []struct {
		what, text         string
		changed            []string
		ofEntry, ofService []string
		gone               bool
	}{
		{"nobody's labels", vm("other", "shop", "app: other", "address: 10.2.0.9"), nil, nil, []string{"10.0.0.5:8080  0"}, false},
		{"another namespace", vm("vm", "elsewhere", "app: vm", "address: 10.2.0.9"), nil, nil, []string{"10.0.0.5:8080  0"}, false},
		{
			"one", vm("one", "shop", "", "address: 10.2.0.1, labels: {app: vm}, ports: {http: 81}, serviceAccount: sa, weight: 3"), []string{"vms.shop.svc.cluster.local", "vms.test"},
			[]string{"10.2.0.1:81 sa 3"}, []string{"10.0.0.5:8080  0", "10.2.0.1:81 sa 3"}, false,
		},
		{
			"two", vm("two", "shop", "app: vm", "address: 10.2.0.2, labels: {app: other}"), []string{"vms.shop.svc.cluster.local", "vms.test"},
			[]string{"10.2.0.1:81 sa 3", "10.2.0.2:8080  0"}, []string{"10.0.0.5:8080  0", "10.2.0.1:81 sa 3", "10.2.0.2:8080  0"}, false,
		},
		{
			"other labels", vm("two", "shop", "app: other", "address: 10.2.0.2"), []string{"vms.shop.svc.cluster.local", "vms.test"},
			[]string{"10.2.0.1:81 sa 3"}, []string{"10.0.0.5:8080  0", "10.2.0.1:81 sa 3"}, false,
		},
		{"a name", vm("two", "shop", "app: vm", "address: vm.example"), nil, []string{"10.2.0.1:81 sa 3"}, []string{"10.0.0.5:8080  0", "10.2.0.1:81 sa 3"}, false},
		{"a network of its own", vm("three", "shop", "app: vm", "network: far"), nil, []string{"10.2.0.1:81 sa 3"}, []string{"10.0.0.5:8080  0", "10.2.0.1:81 sa 3"}, false},
		{"resolved", vmEntry("DNS"), []string{"vms.test"}, []string{"10.2.0.1:81 sa 3", "vm.example:8080  0"}, []string{"10.0.0.5:8080  0", "10.2.0.1:81 sa 3"}, false},
		{"gone", vm("one", "shop", "", "address: 10.2.0.1"), []string{"vms.shop.svc.cluster.local", "vms.test"}, []string{"vm.example:8080  0"}, []string{"10.0.0.5:8080  0"}, true},
	} {
		do := w.apply
		if step.gone {
			do = w.remove
		}
		if changed := do(step.text); !slices.Equal(slices.Concat(changed.Endpoints, changed.Hosts), step.changed) {
			t.Errorf("%s: touched %+v", step.what, changed)
		}
		if got := endpoints("vms.test"); !slices.Equal(got, step.ofEntry) {
			t.Errorf("%s: the entry has %q", step.what, got)
		}
		if got := endpoints(service); !slices.Equal(got, step.ofService) {
			t.Errorf("%s: the Service has %q", step.what, got)
		}
	}
}
