package controlplane

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/sidecar/nodeguard"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/identity"
)

// TestSystemNamespaces: the control plane and nodes' agents leave out the same namespaces. Neither imports the other.
func TestSystemNamespaces(t *testing.T) {
	if !slices.Equal(registry.SystemNamespaces, nodeguard.SystemNamespaces) {
		t.Errorf("the control plane leaves out %q, nodes' agents %q", registry.SystemNamespaces, nodeguard.SystemNamespaces)
	}
}

const nodePods = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio.io/dataplane-mode: ambient}}
---
apiVersion: v1
kind: Pod
metadata: {name: agent-1, namespace: istio-system, uid: u1}
spec: {serviceAccountName: node, nodeName: one, hostNetwork: true}
---
apiVersion: v1
kind: Pod
metadata: {name: agent-2, namespace: istio-system}
spec: {serviceAccountName: node, nodeName: two, hostNetwork: true}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-0, namespace: shop}
spec: {serviceAccountName: cart, nodeName: one}
status: {podIP: 10.0.0.2}
---
apiVersion: v1
kind: Pod
metadata: {name: free-0, namespace: shop, labels: {istio.io/dataplane-mode: none}}
spec: {serviceAccountName: free, nodeName: one}
---
apiVersion: v1
kind: Pod
metadata: {name: own-0, namespace: bank, labels: {istio.io/dataplane-mode: ambient}}
spec: {nodeName: one}
---
apiVersion: v1
kind: Pod
metadata: {name: vault-0, namespace: bank, labels: {istio.io/dataplane-mode: ambient}}
spec: {serviceAccountName: vault, nodeName: two}
`

const notForNodes = `
apiVersion: v1
kind: Pod
metadata: {name: injected-0, namespace: shop, annotations: {sidecar.istio.io/status: ""}}
spec: {nodeName: three}
---
apiVersion: v1
kind: Pod
metadata: {name: gateway-0, namespace: istio-system, labels: {istio.io/dataplane-mode: ambient}}
spec: {nodeName: three}
---
apiVersion: v1
kind: Pod
metadata: {name: dns-0, namespace: kube-system, labels: {istio.io/dataplane-mode: ambient}}
spec: {nodeName: three}
`

// TestNotForNodes: a pod with a sidecar is not served twice, and what the mesh needs to start is not served at all.
func TestNotForNodes(t *testing.T) {
	p := nodesPlane()
	changes, _ := standing(notForNodes)
	p.nodes.apply(changes)
	pods := p.podsOn("three")
	for _, pod := range pods {
		if pod.In {
			t.Errorf("%s is in the mesh by its node", pod.Key())
		}
	}
	if len(pods) != 3 {
		t.Errorf("the node is told of %v", pods)
	}
}

func id(ns, account string) identity.ID {
	return identity.ID{TrustDomain: "cluster.local", Namespace: ns, ServiceAccount: account}
}

func nodesPlane() *plane {
	changes, s := standing(nodePods)
	s.Mesh.NodeAgents = []string{"istio-system/node"}
	p := &plane{known: newInventory(), nodes: newNodes(func() string { return "istio-system" })}
	p.nodes.apply(changes)
	p.snapshot.Store(s)
	return p
}

// TestPodsOfANode: who is in the mesh by the namespace's label or its own, which counts more.
func TestPodsOfANode(t *testing.T) {
	p := nodesPlane()
	in := map[string]bool{}
	for _, pod := range p.podsOn("one") {
		in[pod.Key()] = pod.In
	}
	want := map[string]bool{"shop/cart-0": true, "shop/free-0": false, "bank/own-0": true}
	for key, is := range want {
		if got, told := in[key]; !told || got != is {
			t.Errorf("%s: told of %t, in the mesh %t, want %t", key, told, got, is)
		}
	}
	if len(in) != len(want) {
		t.Errorf("the node is told of %v", in)
	}
	if moved := p.nodes.apply([]config.Change{{Key: config.Key{Kind: config.KindPod, Namespace: "shop", Name: "cart-0"}}}); !maps.Equal(moved, map[string]bool{"one": true}) {
		t.Errorf("a pod of one node is gone, and that is told to %v", moved)
	}
	if list := p.podsOn("one"); len(list) != 2 {
		t.Errorf("a pod that is gone is told of: %v", list)
	}
	if list := p.podsOn("nowhere"); list != nil {
		t.Errorf("pods of no node: %v", list)
	}
}

// TestANamespaceLeaves: who runs pods of a namespace is told that it left the mesh, and nobody else.
func TestANamespaceLeaves(t *testing.T) {
	p := nodesPlane()
	left := []config.Change{{Key: config.Key{Kind: config.KindNamespace, Name: "shop"}, Object: &config.Object{Key: config.Key{Kind: config.KindNamespace, Name: "shop"}}}}
	if moved := p.nodes.apply(left); !maps.Equal(moved, map[string]bool{"one": true}) {
		t.Errorf("told to %v", moved)
	}
	if moved := p.nodes.apply(left); len(moved) > 0 {
		t.Errorf("the same again is told to %v", moved)
	}
	for _, pod := range p.podsOn("one") {
		if pod.In && pod.Namespace == "shop" {
			t.Errorf("%s is still in the mesh", pod.Key())
		}
	}
}

// TestImpersonate: a node's agent has the certificates of the pods on its node, and a stolen token buys nothing beyond it.
func TestImpersonate(t *testing.T) {
	p := nodesPlane()
	agent := id("istio-system", "node")
	for _, tt := range []struct {
		name   string
		caller identity.ID
		of     string // the pod that the token is bound to
		wanted identity.ID
		ok     bool
	}{
		{"a pod of its node", agent, "agent-1", id("shop", "cart"), true},
		{"the default account", agent, "agent-1", id("bank", "default"), true},
		{"a pod of another node", agent, "agent-1", id("bank", "vault"), false},
		{"the other node's agent", agent, "agent-2", id("bank", "vault"), true},
		{"a pod that is out of the mesh", agent, "agent-1", id("shop", "free"), false},
		{"nobody's account", agent, "agent-1", id("shop", "boss"), false},
		{"a pod that is gone", agent, "agent-9", id("shop", "cart"), false},
		{"another trust domain", agent, "agent-1", identity.ID{TrustDomain: "other", Namespace: "shop", ServiceAccount: "cart"}, false},
		{"no agent", id("shop", "cart"), "cart-0", id("bank", "default"), false},
		{"without a pod: any of the account's nodes", agent, "", id("bank", "vault"), true},
	} {
		if err := p.impersonate(t.Context(), tt.caller, identity.Pod{Name: tt.of}, tt.wanted); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestNodesProxy: who may be a node's proxy, and of which.
func TestNodesProxy(t *testing.T) {
	p := nodesPlane()
	for _, tt := range []struct {
		name     string
		caller   identity.ID
		pod      string
		on, told string
	}{
		{"the agent", id("istio-system", "node"), "agent-1.istio-system", "one", ""},
		{"its fellow", id("istio-system", "node"), "agent-2.istio-system", "two", ""},
		{"a pod of somebody else's", id("istio-system", "node"), "cart-0.istio-system", "", "not known"},
		{"no agent", id("shop", "cart"), "cart-0.shop", "", "nodeAgents"},
		{"nonsense", id("istio-system", "node"), "x", "", "POD.NAMESPACE"},
	} {
		on, err := p.nodeOf(tt.caller, ambient.ProxyType+"~10.0.0.9~"+tt.pod+"~"+tt.caller.Namespace+".svc.cluster.local")
		if on != tt.on || (tt.told == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.told) {
			t.Errorf("%s: %q, %v", tt.name, on, err)
		}
	}
}

// TestRecordsOfPods: a node's proxy speaks for the pods on its node; who else is named is a claim.
func TestRecordsOfPods(t *testing.T) {
	p := nodesPlane()
	agent := id("istio-system", "node")
	for _, tt := range []struct {
		name, principal, workload string
		caller                    identity.ID
		want, claim               string
	}{
		{"its pod", "spiffe://cluster.local/ns/shop/sa/cart", "cart-0", agent, "shop/cart/cart-0", ""},
		{"another node's", "spiffe://cluster.local/ns/bank/sa/vault", "vault-0", agent, "istio-system/node/vault-0", "spiffe://cluster.local/ns/bank/sa/vault"},
		{"itself", agent.String(), "agent-1", agent, "istio-system/node/agent-1", ""},
	} {
		r := record.Record{
			Proxy: ambient.ProxyType + "~10.0.0.9~agent-1.istio-system~istio-system.svc.cluster.local", Reporter: record.ReporterSidecar,
			Workload: record.Workload{Principal: tt.principal, Name: tt.workload},
		}
		if err := p.ownRecord(identity.NewContext(t.Context(), tt.caller), &r); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := r.Workload.Namespace + "/" + r.Workload.ServiceAccount + "/" + r.Workload.Name; got != tt.want || r.Claim != tt.claim {
			t.Errorf("%s: %s, claim %q", tt.name, got, r.Claim)
		}
	}
}

// TestRecordsHandedIn: a node's agent hands in what its predecessor on the node left, whether that one's pod is still known or not; nobody else
// speaks for another pod, and no agent for another node's.
func TestRecordsHandedIn(t *testing.T) {
	agent, cart, vault := id("istio-system", "node"), "spiffe://cluster.local/ns/shop/sa/cart", "spiffe://cluster.local/ns/bank/sa/vault"
	for _, tt := range []struct {
		name        string
		caller      identity.ID
		of, proxy   string // the pod of the token, the node id
		principal   string
		want, claim string // the workload and its claim; want "" is refused
	}{
		{"its own", agent, "agent-1", "ztunnel~10.0.0.9~agent-1.istio-system~istio-system.svc", cart, "shop/cart/cart-0", ""},
		{"of one that is gone", agent, "agent-1", "ztunnel~10.0.0.7~agent-0.istio-system~istio-system.svc", cart, "shop/cart/cart-0", ""},
		{"of one that ends", agent, "agent-1", "ztunnel~10.0.0.8~ending-1.istio-system~istio-system.svc", cart, "shop/cart/cart-0", ""},
		{"of one that is gone, about another node", agent, "agent-1", "ztunnel~10.0.0.7~agent-0.istio-system~istio-system.svc", vault, "istio-system/node/cart-0", vault},
		{"of another node's", agent, "agent-1", "ztunnel~10.0.0.6~agent-2.istio-system~istio-system.svc", vault, "", ""},
		{"of another account's", agent, "agent-1", "ztunnel~10.0.0.5~other-0.istio-system~istio-system.svc", cart, "", ""},
		{"as a sidecar", agent, "agent-1", "sidecar~10.0.0.7~agent-0.istio-system~istio-system.svc", cart, "", ""},
		{"by an agent that is gone itself", agent, "agent-9", "ztunnel~10.0.0.7~agent-0.istio-system~istio-system.svc", cart, "", ""},
		{"by a pod of another account", agent, "other-0", "ztunnel~10.0.0.7~agent-0.istio-system~istio-system.svc", cart, "", ""},
		{"by no agent", id("istio-system", "other"), "other-0", "ztunnel~10.0.0.7~agent-0.istio-system~istio-system.svc", cart, "", ""},
	} {
		p := nodesPlane()
		changes, _ := standing(nodePods + moreAgents)
		p.cluster, p.known = &cluster{}, newInventory()
		p.known.apply(changes)
		p.nodes.apply(changes)
		r := record.Record{Proxy: tt.proxy, Reporter: record.ReporterSidecar, Workload: record.Workload{Principal: tt.principal, Name: "cart-0"}}
		ctx := identity.NewPodContext(identity.NewContext(t.Context(), tt.caller), identity.Pod{Name: tt.of})
		got := ""
		if err := p.ownRecord(ctx, &r); err == nil {
			got = r.Workload.Namespace + "/" + r.Workload.ServiceAccount + "/" + r.Workload.Name
		}
		if got != tt.want || r.Claim != tt.claim && got != "" {
			t.Errorf("%s: %q, claim %q", tt.name, got, r.Claim)
		}
	}
}

const moreAgents = `
---
apiVersion: v1
kind: Pod
metadata: {name: ending-1, namespace: istio-system}
spec: {serviceAccountName: node, nodeName: one, hostNetwork: true}
status: {podIP: 10.0.0.8}
---
apiVersion: v1
kind: Pod
metadata: {name: other-0, namespace: istio-system}
spec: {serviceAccountName: other, nodeName: one}
status: {podIP: 10.0.0.5}
`
