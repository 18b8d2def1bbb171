package controlplane

import (
	"context"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/decode"
	"github.com/sallyport/sallyport/serviceentry/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/identity"
)

// standing are a file's objects, and a mesh of them.
func standing(yaml string) ([]serviceentry.Change, *registry.Snapshot) {
	result := decode.File("e.yaml", []byte(yaml))
	var changes []serviceentry.Change
	for i := range result.Objects {
		changes = append(changes, serviceentry.Change{Key: result.Objects[i].Key, Object: &result.Objects[i]})
	}
	cfg := mesh.Default()
	s, _ := registry.New(&cfg).Apply(changes)
	return changes, s
}

// TestOwnRecord: whom a caller may speak for in the audit log.
func TestOwnRecord(t *testing.T) {
	_, s := standing(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: default, annotations: {egress.sallyport.io/gateway: edge/own-gateway}}
spec:
  hosts: [a.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 443, name: tls, protocol: TLS}]
`)
	p := &plane{}
	p.snapshot.Store(s)
	node := func(kind, ns string) string { return kind + "~10.0.0.1~p." + ns + "~" + ns + ".svc.cluster.local" }
	victim := record.Workload{Principal: "spiffe://cluster.local/ns/bank/sa/vault", Namespace: "bank", ServiceAccount: "vault", Name: "vault-0"}
	for _, tt := range []struct {
		name     string
		caller   string // namespace; "" for nobody
		reporter string
		proxy    string
		ok       bool
		of       string // namespace of the workload in the record then
	}{
		{"nobody", "", record.ReporterSidecar, node("sidecar", "default"), false, ""},
		{"a sidecar", "default", record.ReporterSidecar, node("sidecar", "default"), true, "default"},
		{"a sidecar as another namespace's proxy", "default", record.ReporterSidecar, node("sidecar", "bank"), false, ""},
		{"a sidecar as a gateway", "default", record.ReporterGateway, node("router", "default"), false, ""},
		{"the gateway", "istio-system", record.ReporterGateway, node("router", "istio-system"), true, "bank"},
		{"a gateway that an entry names", "edge", record.ReporterGateway, node("router", "edge"), true, "bank"},
		{"a forward proxy", "default", record.ReporterProxy, node("router", "default"), true, "default"},
		{"no node id", "default", record.ReporterSidecar, "app", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := context.Background()
			if tt.caller != "" {
				ctx = identity.NewContext(ctx, identity.ID{TrustDomain: "cluster.local", Namespace: tt.caller, ServiceAccount: "caller"})
			}
			r := record.Record{Proxy: tt.proxy, Reporter: tt.reporter, Workload: victim}
			err := p.ownRecord(ctx, &r)
			if (err == nil) != tt.ok {
				t.Fatal(err)
			}
			if tt.ok && r.Workload.Namespace != tt.of {
				t.Errorf("a record of %+v", r.Workload)
			}
		})
	}
}

// TestOwnRecordInCluster: only the pods behind an egress gateway's Service speak for others.
func TestOwnRecordInCluster(t *testing.T) {
	changes, s := standing(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: default, annotations: {egress.sallyport.io/gateway: edge/own-gateway}}
spec:
  hosts: [a.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 443, name: tls, protocol: TLS}]
---
apiVersion: v1
kind: Service
metadata: {name: own-gateway, namespace: edge}
spec: {selector: {door: "yes"}, ports: [{name: tls, port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: edge}
spec: {selector: {app: shop}, ports: [{name: tls, port: 443}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gw-0, namespace: edge, labels: {door: "yes"}}
spec: {serviceAccountName: gw}
status: {podIP: 10.0.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: shop-0, namespace: edge, labels: {app: shop}}
spec: {serviceAccountName: shop}
status: {podIP: 10.0.0.2}
`)
	p := &plane{cluster: &cluster{}, known: newInventory()}
	p.known.apply(changes)
	p.snapshot.Store(s)
	for _, tt := range []struct {
		name           string
		account, pod   string // of the caller; a pod without a token of its own comes with its account's certificate
		proxy          string
		reporter, told string // told "" is taken
		of             string // the pod in the record then
	}{
		{"the gateway", "gw", "gw-0", "router~10.0.0.1~gw-0.edge~edge.svc", record.ReporterGateway, "", "vault-0"},
		{"the gateway, by certificate", "gw", "", "router~10.0.0.1~gw-0.edge~edge.svc", record.ReporterGateway, "", "vault-0"},
		{"a gateway's pod that is gone", "gw", "", "router~10.0.0.9~gw-9.edge~edge.svc", record.ReporterGateway, "", "vault-0"},
		{"another pod beside it", "shop", "shop-0", "router~10.0.0.2~shop-0.edge~edge.svc", record.ReporterGateway, "no egress gateway", ""},
		{"another pod as one that is gone", "shop", "", "router~10.0.0.9~gw-9.edge~edge.svc", record.ReporterGateway, "no egress gateway", ""},
		{"another pod as the gateway", "shop", "", "router~10.0.0.1~gw-0.edge~edge.svc", record.ReporterGateway, `service account is "gw"`, ""},
		{"another pod as itself", "shop", "shop-0", "sidecar~10.0.0.2~shop-0.edge~edge.svc", record.ReporterSidecar, "", "shop-0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := identity.NewContext(t.Context(), identity.ID{TrustDomain: "cluster.local", Namespace: "edge", ServiceAccount: tt.account})
			ctx = identity.NewPodContext(ctx, identity.Pod{Name: tt.pod})
			r := record.Record{Proxy: tt.proxy, Reporter: tt.reporter, Workload: record.Workload{Namespace: "bank", Name: "vault-0"}}
			err := p.ownRecord(ctx, &r)
			if tt.told != "" {
				if err == nil || !strings.Contains(err.Error(), tt.told) {
					t.Errorf("error %v, want one with %q", err, tt.told)
				}
				return
			}
			if err != nil || r.Workload.Name != tt.of {
				t.Errorf("a record of %+v, %v; want the pod %s", r.Workload, err, tt.of)
			}
		})
	}
}
