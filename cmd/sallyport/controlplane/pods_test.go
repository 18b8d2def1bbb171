package controlplane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/identity"
)

// podOf is a pod's YAML; labels and more come in flow style.
func podOf(ns, name, account, labels, status string) string {
	return fmt.Sprintf("\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s, labels: {%s}}\nspec: {serviceAccountName: %s}\nstatus: {%s}\n---", name, ns, labels, account, status)
}

const enriched = `
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egressgateway}, ports: [{name: tls, port: 443}]}
---`

func enrichedPlane(t *testing.T, pods string) (*plane, []config.Change) {
	t.Helper()
	changes, s := standing(entryOf("shop", "istio-system/istio-egressgateway") + enriched + podOf("istio-system", "gw-0", "gw", "istio: egressgateway", "podIP: 10.0.0.1") + pods)
	for _, c := range changes {
		if c.Key.Name == "big-0" {
			c.Object.Labels = map[string]string{"app": "big", "note": strings.Repeat("x", 1<<20)} // the API server takes none; who knows
		}
	}
	p := &plane{cluster: &cluster{}, known: newInventory()}
	p.known.apply(changes)
	p.snapshot.Store(s)
	return p, changes
}

// TestLabelsAreThePods: whatever a proxy says, the labels and the destination of a record are what the control plane knows.
func TestLabelsAreThePods(t *testing.T) {
	pods := podOf("shop", "cart-0", "cart", "app: cart, tier: web, pod-template-hash: abc", "podIP: 10.0.0.2") +
		podOf("shop", "cart-1", "cart", "app: cart, canary: 'yes'", "podIP: 10.0.0.3, podIPs: [{ip: 10.0.0.3}, {ip: 'fd00::3'}]") +
		podOf("bank", "vault-0", "vault", "app: vault", "podIP: 10.0.0.4") +
		podOf("shop", "job-0", "cart", "app: job", "podIP: 10.0.0.5, phase: Succeeded") +
		podOf("shop", "twin-0", "cart", "app: one", "podIP: 10.0.0.6") + podOf("shop", "twin-1", "cart", "app: two", "podIP: 10.0.0.6") +
		podOf("bank", "reused-0", "vault", "app: reused", "podIP: 10.0.0.7") + podOf("shop", "old-0", "cart", "app: old", "podIP: 10.0.0.7, phase: Failed") +
		podOf("shop", "big-0", "cart", "app: big", "podIP: 10.0.0.8")
	p, changes := enrichedPlane(t, pods)
	const cart, vault = "spiffe://cluster.local/ns/shop/sa/cart", "spiffe://cluster.local/ns/bank/sa/vault"
	for _, tt := range []struct {
		name        string
		ns, account string // of the caller
		pod, ip     string // of its node id
		reporter    string
		principal   string // that it names
		source, to  string
		workload    string
		labels      string
		destination string // pod and labels
		direction   string
		cut         string
	}{
		{"a sidecar", "shop", "cart", "cart-0", "10.0.0.2", "sidecar", vault, "10.0.0.4:1", "192.0.2.1:443", "cart-0", "app=cart,tier=web", "", "outbound", ""},
		{"a sidecar to a workload", "shop", "cart", "cart-0", "10.0.0.2", "sidecar", cart, "", "10.0.0.4:80", "cart-0", "app=cart,tier=web", "bank/vault vault-0 app=vault", "lateral", ""},
		{"a sidecar to an address that several seem to have", "shop", "cart", "cart-0", "10.0.0.2", "sidecar", cart, "", "10.0.0.6:80", "cart-0", "app=cart,tier=web", "", "outbound", ""},
		{"a sidecar to one that has given its address back", "shop", "cart", "cart-0", "10.0.0.2", "sidecar", cart, "", "10.0.0.5:80", "cart-0", "app=cart,tier=web", "", "outbound", ""},
		{"a sidecar as the gateway", "shop", "cart", "cart-0", "10.0.0.2", "gateway", vault, "10.0.0.4:1", "192.0.2.1:443", "cart-0", "app=cart,tier=web", "", "outbound", ""},
		{"labels of a megabyte", "shop", "cart", "big-0", "10.0.0.8", "sidecar", cart, "", "", "big-0", "app=big", "", "outbound", "workload.labels"},
		{"the gateway", "istio-system", "gw", "gw-0", "10.0.0.1", "gateway", cart, "10.0.0.3:5555", "192.0.2.1:443", "cart-1", "app=cart,canary=yes", "", "outbound", ""},
		{"the gateway, over IPv6", "istio-system", "gw", "gw-0", "10.0.0.1", "gateway", cart, "[fd00::3]:5555", "192.0.2.1:443", "cart-1", "app=cart,canary=yes", "", "outbound", ""},
		{"the gateway, of an address that is another's", "istio-system", "gw", "gw-0", "10.0.0.1", "gateway", cart, "10.0.0.4:5555", "192.0.2.1:443", "", "", "", "outbound", ""},
		{"the gateway, of an address that is another's now", "istio-system", "gw", "gw-0", "10.0.0.1", "gateway", cart, "10.0.0.7:5555", "192.0.2.1:443", "", "", "", "outbound", ""},
		{"the gateway, of a pod that is done", "istio-system", "gw", "gw-0", "10.0.0.1", "gateway", cart, "10.0.0.5:5555", "192.0.2.1:443", "job-0", "app=job", "", "outbound", ""},
		{"the gateway, of twins", "istio-system", "gw", "gw-0", "10.0.0.1", "gateway", cart, "10.0.0.6:5555", "192.0.2.1:443", "", "", "", "outbound", ""},
		{"the gateway, of nobody", "istio-system", "gw", "gw-0", "10.0.0.1", "gateway", "", "10.0.0.2:5555", "192.0.2.1:443", "", "", "", "outbound", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := identity.NewContext(t.Context(), identity.ID{TrustDomain: "cluster.local", Namespace: tt.ns, ServiceAccount: tt.account})
			r := record.Record{
				Proxy:    "sidecar~" + tt.ip + "~" + tt.pod + "." + tt.ns + "~" + tt.ns + ".svc.cluster.local",
				Reporter: tt.reporter, Source: tt.source, Destination: tt.to, Direction: record.Outbound,
				Workload:            record.Workload{Principal: tt.principal, Labels: "app=vault,admin=yes"},
				DestinationWorkload: record.Workload{Name: "made-up", Labels: "app=made-up"},
			}
			if err := p.ownRecord(ctx, &r); err != nil {
				t.Fatal(err)
			}
			d := r.DestinationWorkload
			destination := strings.TrimSpace(fmt.Sprintf("%s/%s %s %s", d.Namespace, d.ServiceAccount, d.Name, d.Labels))
			if d == (record.Workload{}) {
				destination = ""
			} else if d.Principal != "spiffe://cluster.local/ns/"+d.Namespace+"/sa/"+d.ServiceAccount {
				t.Errorf("the destination is %q", d.Principal)
			}
			if r.Workload.Name != tt.workload || r.Workload.Labels != tt.labels || destination != tt.destination || r.Direction != tt.direction || strings.Join(r.Cut, ",") != tt.cut {
				t.Errorf("pod %q, labels %q, destination %q, %s, cut %q", r.Workload.Name, r.Workload.Labels, destination, r.Direction, r.Cut)
			}
		})
	}

	t.Run("labels that change while records come", func(t *testing.T) {
		ctx := identity.NewContext(t.Context(), identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "cart"})
		report := func() string {
			r := record.Record{Proxy: "sidecar~10.0.0.2~cart-0.shop~shop.svc.cluster.local", Reporter: "sidecar", Workload: record.Workload{Name: "cart-0"}}
			if err := p.ownRecord(ctx, &r); err != nil {
				t.Fatal(err)
			}
			return r.Workload.Labels
		}
		change := func(pod string) {
			o := decode.File("p.yaml", []byte(pod)).Objects[0]
			p.known.apply([]config.Change{{Key: o.Key, Object: &o}})
		}
		change(podOf("shop", "cart-0", "cart", "app: cart, tier: db", "podIP: 10.0.0.2"))
		if got := report(); got != "app=cart,tier=db" {
			t.Errorf("after a change: %q", got)
		}
		p.known.apply([]config.Change{{Key: config.Key{Kind: config.KindPod, Namespace: "shop", Name: "cart-0"}}})
		if got := report(); got != "app=cart,tier=db" {
			t.Errorf("after its end: %q", got)
		}
	})

	t.Run("addresses are given back", func(t *testing.T) {
		for _, c := range changes {
			p.known.apply([]config.Change{{Key: c.Key}})
		}
		if len(p.known.at.of) != 0 {
			t.Errorf("left: %v", p.known.at.of)
		}
		for i := range 2 * keptGone {
			o := decode.File("p.yaml", []byte(podOf("x", fmt.Sprintf("p-%d", i), "a", "", "podIP: 10.9.9.9"))).Objects[0]
			p.known.apply([]config.Change{{Key: o.Key, Object: &o}})
			p.known.apply([]config.Change{{Key: o.Key}})
		}
		if n := len(p.known.at.gone); n > keptGone {
			t.Errorf("%d pods are remembered", n)
		}
	})
}
