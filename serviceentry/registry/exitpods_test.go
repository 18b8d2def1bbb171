package registry_test

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
)

// gatewayOf and routesOf are objects of a namespace for pods of gateways: a Gateway, and a VirtualService for it, which leads there from sidecars if it is a pair's.
func gatewayOf(name, label string) string {
	return yamlOf("networking.istio.io/v1", "Gateway", name, fmt.Sprintf("{selector: {istio: %s}, servers: [{hosts: ['*'], port: {number: 443, name: t, protocol: TLS}, tls: {mode: PASSTHROUGH}}]}", label))
}

func pairOf(name, gateway string) string {
	return yamlOf("networking.istio.io/v1", "VirtualService", name, fmt.Sprintf("{hosts: [away.test], gateways: [mesh, %s], tls: [{match: [{gateways: [mesh], port: 443, sniHosts: [away.test]}], route: [{destination: {host: gw.edge.svc.cluster.local}}]}]}", gateway))
}

func yamlOf(api, kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: %s\nspec: %s\n", api, kind, name, spec)
}

func gatewayPods(label string) string {
	return yamlOf("v1", "Service", "{name: gw, namespace: edge}", "{clusterIP: 10.96.0.40, selector: {app: gw, istio: "+label+"}, ports: [{name: tls, port: 443, targetPort: 8443}]}") +
		"---\n" + yamlOf("v1", "Pod", fmt.Sprintf("{name: gw-1, namespace: edge, labels: {app: gw, istio: %s}}", label), "{}") + "status: {podIP: 10.244.0.40, phase: Running}\n"
}

// TestWhoMakesPodsAnExit: VirtualServices that lead sidecars to pods make these an egress gateway where nobody comes in by them, or where who has the pods says so;
// never what others come in by.
func TestWhoMakesPodsAnExit(t *testing.T) {
	const theirs, ours, roots = "{name: g, namespace: team-a}", "{name: g, namespace: edge}", "{name: g, namespace: istio-system}"
	for name, c := range map[string]struct {
		labelled string
		scoped   bool // sallyport.ingress.ownNamespace
		objects  []string
		exit     bool
		nothing  bool // is neither
	}{
		"a pair of the pods' own namespace":       {objects: []string{gatewayOf(ours, "in"), pairOf("{name: v, namespace: edge}", "g"), gatewayOf(theirs, "in")}, exit: true},
		"a pair of the root namespace":            {objects: []string{gatewayOf(roots, "in"), pairOf("{name: v, namespace: istio-system}", "g"), gatewayOf(theirs, "in")}, exit: true},
		"a pair of another where nobody comes in": {objects: []string{gatewayOf(theirs, "in"), pairOf("{name: v, namespace: team-a}", "g")}, exit: true},
		"two pairs of others":                     {objects: []string{gatewayOf(theirs, "in"), pairOf("{name: v, namespace: team-a}", "g"), gatewayOf("{name: g, namespace: team-b}", "in"), pairOf("{name: v, namespace: team-b}", "g")}, exit: true},
		"no pair":                                 {objects: []string{gatewayOf(theirs, "in")}},
		"a pair beside another's Gateway":         {objects: []string{gatewayOf(theirs, "in"), gatewayOf("{name: g, namespace: team-b}", "in"), pairOf("{name: v, namespace: team-b}", "g")}},
		"a pair by another's Gateway":             {objects: []string{gatewayOf(ours, "in"), pairOf("{name: v, namespace: team-b}", "edge/g")}},
		"a pair by a Gateway of the root's":       {objects: []string{gatewayOf(roots, "in"), pairOf("{name: v, namespace: team-b}", "istio-system/g")}},
		"their own pair by another's Gateway":     {objects: []string{gatewayOf(theirs, "in"), pairOf("{name: v, namespace: edge}", "team-a/g")}},
		"a Gateway that may open nothing":         {scoped: true, objects: []string{gatewayOf(theirs, "in"), pairOf("{name: v, namespace: team-a}", "g")}, nothing: true},
		"another's pair where only theirs count":  {scoped: true, objects: []string{gatewayOf(ours, "in"), gatewayOf(theirs, "in"), pairOf("{name: v, namespace: team-a}", "g")}},
		"pods labelled as an exit":                {labelled: "egressgateway", objects: []string{gatewayOf(theirs, "egressgateway"), pairOf("{name: v, namespace: team-a}", "g"), gatewayOf("{name: g, namespace: team-b}", "egressgateway")}, exit: true},
		"pods labelled so, by a shared Gateway":   {labelled: "egressgateway", objects: []string{gatewayOf(ours, "egressgateway"), pairOf("{name: v, namespace: team-a}", "edge/g")}, exit: true},
	} {
		t.Run(name, func(t *testing.T) {
			label := c.labelled
			if label == "" {
				label = "in"
			}
			w := newWorld(t)
			cfg := mesh.Default()
			cfg.Ingress.OwnNamespace = c.scoped
			w.SetMesh(&cfg)
			w.apply(gatewayPods(label))
			for _, o := range c.objects {
				w.apply(o)
			}
			_, is := w.Snapshot().IngressOf("edge", map[string]string{"app": "gw", "istio": label}, 0)
			if want := !c.exit && !c.nothing; is != want {
				t.Errorf("an ingress gateway: %v, want %v", is, want)
			}
		})
	}
}
