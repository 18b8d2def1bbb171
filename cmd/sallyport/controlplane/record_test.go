package controlplane

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/translate"
)

// written are a file's objects, of which nothing is to be said.
func written(t *testing.T, yaml string) []config.Change {
	t.Helper()
	read := decode.File("a.yaml", []byte(yaml))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	return changesOf(read)
}

func changesOf(read decode.Result) (changes []config.Change) {
	for i := range read.Objects {
		changes = append(changes, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
	}
	return changes
}

// standing are a file's objects, and a mesh of them.
func standing(yaml string) ([]config.Change, *registry.Snapshot) {
	changes := changesOf(decode.File("e.yaml", []byte(yaml)))
	cfg := mesh.Default()
	s, _ := registry.New(&cfg).Apply(changes)
	return changes, s
}

// entryOf is an entry of a namespace that leaves by a gateway.
func entryOf(ns, gateway string) string {
	return `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: ` + ns + `, annotations: {egress.sallyport.io/gateway: ` + gateway + `}}
spec:
  hosts: [` + ns + `.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 443, name: tls, protocol: TLS}]
---`
}

// TestOwnRecord: whom a caller may speak for in the audit log.
func TestOwnRecord(t *testing.T) {
	_, s := standing(entryOf("edge", "edge/own") + entryOf("other", "third/named-by-a-tenant") + entryOf("istio-system", "door/shared") + `
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egressgateway}, ports: [{name: tls, port: 443}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gw-0, namespace: istio-system, labels: {istio: egressgateway}}
spec: {serviceAccountName: gw}
status: {podIP: 10.0.0.1}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: spoof, namespace: edge}
spec:
  hosts: [istio-egressgateway.istio-system.svc.cluster.local, shared.door.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 443, name: tls, protocol: TLS}]
  endpoints: [{address: 10.0.0.66, serviceAccount: app}]
`)
	p := &plane{}
	p.snapshot.Store(s)
	node := func(kind, ns string) string { return kind + "~10.0.0.1~p." + ns + "~" + ns + ".svc.cluster.local" }
	victim := record.Workload{Principal: "spiffe://cluster.local/ns/bank/sa/vault", Namespace: "bank", ServiceAccount: "vault", Name: "vault-0"}
	for _, tt := range []struct {
		name        string
		ns, account string // of the caller; "" for nobody
		reporter    string
		proxy       string
		ok          bool
		of          string // namespace of the workload in the record then
		claim       bool   // the victim is there as a claim
	}{
		{"nobody", "", "", record.ReporterSidecar, node("sidecar", "default"), false, "", false},
		{"a sidecar", "default", "app", record.ReporterSidecar, node("sidecar", "default"), true, "default", false},
		{"a sidecar as another namespace's proxy", "default", "app", record.ReporterSidecar, node("sidecar", "bank"), false, "", false},
		{"a sidecar as a gateway", "default", "app", record.ReporterGateway, node("router", "default"), true, "default", true},
		{"the gateway", "istio-system", "gw", record.ReporterGateway, node("router", "istio-system"), true, "bank", false},
		{"another workload beside the gateway", "istio-system", "app", record.ReporterGateway, node("router", "istio-system"), true, "istio-system", true},
		{"a gateway that its own namespace's entry names", "edge", "own", record.ReporterGateway, node("router", "edge"), true, "edge", true},
		{"a gateway that another namespace's entry names", "third", "named-by-a-tenant", record.ReporterGateway, node("router", "third"), true, "third", true},
		{"a gateway that the root namespace's entry names", "door", "shared", record.ReporterGateway, node("router", "door"), true, "bank", false},
		{"another workload beside it", "door", "app", record.ReporterGateway, node("router", "door"), true, "door", true},
		{"a forward proxy", "default", "app", record.ReporterProxy, node("router", "default"), true, "default", false},
		{"no node id", "default", "app", record.ReporterSidecar, "app", false, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := context.Background()
			if tt.ns != "" {
				ctx = identity.NewContext(ctx, identity.ID{TrustDomain: "cluster.local", Namespace: tt.ns, ServiceAccount: tt.account})
			}
			r := record.Record{Proxy: tt.proxy, Reporter: tt.reporter, Workload: victim, Claim: "spiffe://cluster.local/ns/x/sa/y"}
			err := p.ownRecord(ctx, &r)
			if (err == nil) != tt.ok {
				t.Fatal(err)
			}
			if !tt.ok {
				return
			}
			if r.Workload.Namespace != tt.of || tt.of != "bank" && strings.Contains(r.Workload.Principal, "bank") {
				t.Errorf("a record of %+v", r.Workload)
			}
			if want := map[bool]string{true: victim.Principal}[tt.claim]; r.Claim != want && tt.of != "bank" {
				t.Errorf("the claim is %q, want %q", r.Claim, want)
			}
		})
	}
}

// TestOwnNodeWithoutACluster: what a node id claims makes no gateway.
func TestOwnNodeWithoutACluster(t *testing.T) {
	_, s := standing(entryOf("edge", "edge/own"))
	p := &plane{}
	p.snapshot.Store(s)
	node := func(kind, ns string) string { return kind + "~10.0.0.1~p." + ns + "~" + ns + ".svc.cluster.local" }
	for _, tt := range []struct {
		name, ns, account string
		node              translate.Node
		code              codes.Code
	}{
		{"a sidecar", "shop", "app", translate.Node{ID: node("sidecar", "shop"), Namespace: "shop"}, codes.OK},
		{"another namespace's", "shop", "app", translate.Node{ID: node("sidecar", "bank"), Namespace: "bank"}, codes.PermissionDenied},
		{"a gateway where there is none", "shop", "app", translate.Node{ID: node("router", "shop"), Namespace: "shop"}, codes.PermissionDenied},
		{"a workload beside the gateway", "istio-system", "app", translate.Node{ID: node("router", "istio-system"), Namespace: "istio-system"}, codes.PermissionDenied},
		{"the gateway", "istio-system", "istio-egressgateway", translate.Node{ID: node("router", "istio-system"), Namespace: "istio-system"}, codes.OK},
		{"the gateway as Istio's charts of old have it", "istio-system", "istio-egressgateway-service-account", translate.Node{ID: node("router", "istio-system"), Namespace: "istio-system"}, codes.OK},
		{"a namespace's own gateway", "edge", "own", translate.Node{ID: node("router", "edge"), Namespace: "edge"}, codes.OK},
		{"a forward proxy", "shop", "app", translate.Node{ID: node("router", "shop"), Namespace: "shop", Forward: "127.0.0.1:3128"}, codes.OK},
		{"no address", "shop", "app", translate.Node{ID: "sidecar~here~p.shop~shop.svc", Namespace: "shop"}, codes.InvalidArgument},
		{"no pod", "shop", "app", translate.Node{ID: "sidecar~10.0.0.1~shop~shop.svc", Namespace: "shop"}, codes.InvalidArgument},
		{"a domain of another namespace", "shop", "app", translate.Node{ID: "sidecar~10.0.0.1~p.shop~bank.svc", Namespace: "shop"}, codes.InvalidArgument},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := identity.NewContext(t.Context(), identity.ID{TrustDomain: "cluster.local", Namespace: tt.ns, ServiceAccount: tt.account})
			if _, err := p.ownNode(ctx, tt.node); status.Code(err) != tt.code {
				t.Errorf("%v, want %s", err, tt.code)
			}
		})
	}
}

// TestOwnRecordInCluster: only the pods behind an egress gateway's Service speak for others.
func TestOwnRecordInCluster(t *testing.T) {
	changes, s := standing(entryOf("istio-system", "edge/own-gateway") + entryOf("edge", "edge/shop") + `
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
		of             string // the pod in the record then; "" is of the caller's account, which claims the pod vault-0
	}{
		{"the gateway", "gw", "gw-0", "router~10.0.0.1~gw-0.edge~edge.svc", record.ReporterGateway, "", "vault-0"},
		{"the gateway, by certificate", "gw", "", "router~10.0.0.1~gw-0.edge~edge.svc", record.ReporterGateway, "", "vault-0"},
		{"a gateway's pod that is gone", "gw", "", "router~10.0.0.9~gw-9.edge~edge.svc", record.ReporterGateway, "", "vault-0"},
		{"another pod beside it", "shop", "shop-0", "router~10.0.0.2~shop-0.edge~edge.svc", record.ReporterGateway, "", "shop-0"},
		{"another pod as one that is gone", "shop", "", "router~10.0.0.9~gw-9.edge~edge.svc", record.ReporterGateway, "", ""},
		{"another pod as the gateway", "shop", "", "router~10.0.0.1~gw-0.edge~edge.svc", record.ReporterGateway, `service account is "gw"`, ""},
		{"another pod as itself", "shop", "shop-0", "sidecar~10.0.0.2~shop-0.edge~edge.svc", record.ReporterSidecar, "", "shop-0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := identity.NewContext(t.Context(), identity.ID{TrustDomain: "cluster.local", Namespace: "edge", ServiceAccount: tt.account})
			ctx = identity.NewPodContext(ctx, identity.Pod{Name: tt.pod})
			r := record.Record{Proxy: tt.proxy, Reporter: tt.reporter, Workload: record.Workload{Principal: "spiffe://cluster.local/ns/bank/sa/vault", Namespace: "bank", Name: "vault-0"}}
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
