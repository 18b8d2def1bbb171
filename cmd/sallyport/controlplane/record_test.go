package controlplane

import (
	"context"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/decode"
	"github.com/sallyport/sallyport/serviceentry/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/identity"
)

// TestOwnRecord: whom a caller may speak for in the audit log.
func TestOwnRecord(t *testing.T) {
	cfg := mesh.Default()
	r := registry.New(&cfg)
	result := decode.File("e.yaml", []byte(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: default, annotations: {egress.sallyport.io/gateway: edge/own-gateway}}
spec:
  hosts: [a.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 443, name: tls, protocol: TLS}]
`))
	s, _ := r.Apply([]serviceentry.Change{{Key: result.Objects[0].Key, Object: &result.Objects[0]}})
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
