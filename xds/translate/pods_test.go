package translate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestUnserved: the proxy of a node serves an ordinary namespace's pods, those with Services too, and says by which object it does not serve one.
func TestUnserved(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {clusterIP: 10.0.0.9, selector: {app: web}, ports: [{name: http, port: 80}]}\n---\n"
	const security = "apiVersion: security.istio.io/v1\n"
	for name, c := range map[string]struct{ text, want string }{
		"a Service":        {service, ""},
		"permissive":       {service + security + "kind: PeerAuthentication\nmetadata: {name: p, namespace: shop}\nspec: {mtls: {mode: PERMISSIVE}}\n", ""},
		"strict":           {security + "kind: PeerAuthentication\nmetadata: {name: p, namespace: istio-system}\nspec: {mtls: {mode: STRICT}}\n", ""},
		"strict at a port": {security + "kind: PeerAuthentication\nmetadata: {name: p, namespace: shop}\nspec: {selector: {matchLabels: {app: web}}, portLevelMtls: {8080: {mode: STRICT}}}\n", ""},
		"of others":        {security + "kind: PeerAuthentication\nmetadata: {name: p, namespace: bank}\nspec: {mtls: {mode: STRICT}}\n", ""},
		"authorized":       {security + "kind: AuthorizationPolicy\nmetadata: {name: a, namespace: shop}\nspec: {}\n", ""},
		"of others' pods":  {security + "kind: AuthorizationPolicy\nmetadata: {name: a, namespace: shop}\nspec: {selector: {matchLabels: {app: other}}}\n", ""},
		"tried only":       {security + "kind: AuthorizationPolicy\nmetadata: {name: a, namespace: shop, annotations: {istio.io/dry-run: 'true'}}\nspec: {}\n", ""},
		"has one asked":    {security + "kind: AuthorizationPolicy\nmetadata: {name: a, namespace: shop}\nspec: {action: CUSTOM, provider: {name: p}, rules: [{}]}\n", "AuthorizationPolicy shop/a"},
		"a Sidecar":        {"apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: s, namespace: shop}\nspec: {egress: [{hosts: ['./*']}]}\n", "Sidecar shop/s"},
		"hosts of its own": {"apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: e, namespace: shop}\nspec: {hosts: [own.com], exportTo: ['.'], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}\n", ""},
		"certificates":     {"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r, namespace: shop}\nspec: {host: own.com, trafficPolicy: {tls: {mode: MUTUAL, credentialName: c}}}\n", "show certificates"},
		"a key in a file":  {"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r, namespace: shop}\nspec: {host: own.com, trafficPolicy: {tls: {mode: MUTUAL, clientCertificate: /s/c.pem, privateKey: /s/k.pem}}}\n", "show certificates"},
		"its own identity": {"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r, namespace: shop}\nspec: {host: db.bank.svc.cluster.local, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}\n", ""},
		"others' rule":     {"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r, namespace: bank}\nspec: {host: bank.com, exportTo: [shop], trafficPolicy: {tls: {mode: MUTUAL, credentialName: c}}}\n", ""},
		"others' identity": {"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r, namespace: bank}\nspec: {host: db.bank.svc.cluster.local, exportTo: [shop], trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}\n", ""},
		"roots in a file":  {"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r, namespace: shop}\nspec: {host: own.com, trafficPolicy: {tls: {mode: SIMPLE, caCertificates: /s/ca.pem}}}\n", ""},
	} {
		s := snapshotOf(t, name, c.text)
		if got := translate.UnsupportedPod(s, "shop", map[string]string{"app": "web"}); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func snapshotOf(t *testing.T, name, text string) *registry.Snapshot {
	t.Helper()
	settings := mesh.Default()
	result := decode.File("objects.yaml", []byte(text))
	for _, f := range result.Findings {
		t.Errorf("%s: %s", name, f)
	}
	var changes []config.Change
	for i := range result.Objects {
		changes = append(changes, config.Change{Key: result.Objects[i].Key, Object: &result.Objects[i]})
	}
	s, _ := registry.New(&settings).Apply(changes)
	return s
}

// TestPodListeners: a pod has listeners of its own where an object is about what comes to it, which stay the same as long as what is said does.
func TestPodListeners(t *testing.T) {
	const security = "apiVersion: security.istio.io/v1\nmetadata: {name: p, namespace: shop}\n"
	var d translate.PodListeners
	of := func(name, text string, labels map[string]string) map[string][]byte {
		out, _ := d.Of(snapshotOf(t, name, text), "shop/web-1", "shop", labels)
		return out
	}
	strict := security + "kind: PeerAuthentication\nspec: {mtls: {mode: STRICT}}\n"
	first := of("strict", strict, nil)
	for _, name := range []string{ambient.PodInbound, ambient.PodTunnel} {
		if len(first[name]) == 0 {
			t.Errorf("%s: nothing of its own", name)
		}
	}
	if again := of("again", strict, nil); &again[ambient.PodTunnel][0] != &first[ambient.PodTunnel][0] {
		t.Error("what did not change was made again")
	}
	if other, _ := d.Of(snapshotOf(t, "other", strict), "shop/web-2", "shop", nil); &other[ambient.PodTunnel][0] != &first[ambient.PodTunnel][0] {
		t.Error("two pods that have the same hold it twice")
	}
	d.Forget("shop/web-1")
	if again := of("after another's end", strict, nil); &again[ambient.PodTunnel][0] != &first[ambient.PodTunnel][0] {
		t.Error("what another pod has was made again")
	}
	settings := mesh.Default()
	settings.ProtocolDetectionTimeout = 7 * time.Second
	later := testCase{objects: decode.File("a.yaml", []byte(strict)).Objects, mesh: settings}.snapshot()
	if again, _ := d.Of(later, "shop/web-1", "shop", nil); string(again[ambient.PodInbound]) == string(first[ambient.PodInbound]) {
		t.Error("clients are waited for as long as before, though the mesh's settings say otherwise")
	}
	allowed := of("authorized", security+"kind: AuthorizationPolicy\nspec: {rules: [{from: [{source: {principals: [cluster.local/ns/a/sa/b]}}]}]}\n", nil)
	if !strings.Contains(string(allowed[ambient.PodTunnel]), "ns/a/sa/b") || !strings.Contains(string(allowed[ambient.PodInbound]), "ns/a/sa/b") {
		t.Error("the policy is not in its listeners")
	}
	d.Forget("shop/web-1") // for some seconds a pod goes on as when it took mutual TLS alone
	for name, text := range map[string]string{"nothing": "", "permissive": security + "kind: PeerAuthentication\nspec: {mtls: {mode: PERMISSIVE}}\n"} {
		if got := of(name, text, nil); got != nil {
			t.Errorf("%s: %d of its own", name, len(got))
		}
	}
	if got := of("told", "", map[string]string{"security.istio.io/tlsMode": "istio"}); len(got) != 2 {
		t.Errorf("clients are told that it takes mutual TLS: %d of its own", len(got))
	}
}

// TestUpdatePods: what is told of a node's pods is written where it differs, and nowhere else.
func TestUpdatePods(t *testing.T) {
	pods := func(uid string, names ...string) (out []ambient.Pod) {
		for _, name := range names {
			out = append(out, ambient.Pod{Namespace: "shop", Name: name, UID: uid, Templates: map[string][]byte{ambient.PodInbound: []byte("x")}})
		}
		return out
	}
	was := pods("1", "a", "b", "c")
	v := translate.BuildPods(was)
	held := func(v *translate.View) map[string]*resource.Resource {
		out := map[string]*resource.Resource{}
		v.Walk(resource.Pod, func(r *resource.Resource) bool { out[r.Name] = r; return true })
		return out
	}
	now := append(pods("1", "a"), append(pods("2", "b"), pods("1", "d")...)...)
	next, refs := translate.UpdatePods(v, was, now)
	slices.SortFunc(refs, func(a, b resource.Ref) int { return strings.Compare(a.Name, b.Name) })
	if names := fmt.Sprint(refs); len(refs) != 3 || refs[0].Name != "shop/b" || refs[1].Name != "shop/c" || refs[2].Name != "shop/d" {
		t.Errorf("what differs: %s", names)
	}
	before, after := held(v), held(next)
	if len(after) != 3 || after["shop/a"] != before["shop/a"] || after["shop/b"].Version == before["shop/b"].Version || after["shop/c"] != nil {
		t.Errorf("before %v, after %v", before, after)
	}
	if _, refs := translate.UpdatePods(next, now, now); len(refs) != 0 {
		t.Errorf("nothing differs, but %v", refs)
	}
}

// TestPodsTellMutualApartForAWhile: a pod whose waypoint has left it takes mutual TLS until all have heard of that, what policies say of it notwithstanding; and no longer.
func TestPodsTellMutualApartForAWhile(t *testing.T) {
	const (
		objects = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {istio.io/dataplane-mode: ambient}}\n---\n" +
			"apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: waypoint, namespace: shop, labels: {istio.io/waypoint-for: all}}\nspec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}\n"
		policy = "---\napiVersion: security.istio.io/v1\nmetadata: {name: p, namespace: shop}\nkind: AuthorizationPolicy\nspec: {rules: [{from: [{source: {principals: [cluster.local/ns/a/sa/b]}}]}]}\n"
	)
	synctest.Test(t, func(t *testing.T) {
		var d translate.PodListeners
		s, policed := snapshotOf(t, "objects", objects), snapshotOf(t, "policed", objects+policy)
		at := func(s *registry.Snapshot, labels map[string]string) (string, time.Duration) {
			out, after := d.Of(s, "shop/web-1", "shop", labels)
			return string(out[ambient.PodInbound]), after
		}
		fronted := map[string]string{"istio.io/use-waypoint": "waypoint"}
		before, after := at(s, fronted)
		if before == "" || after != 0 {
			t.Fatalf("%d bytes behind the waypoint, and others after %s", len(before), after)
		}
		for range 3 { // looked at for other reasons
			if now, after := at(s, nil); now != before || after <= 0 {
				t.Errorf("%d bytes when it has left, %d before; others after %s", len(now), len(before), after)
			}
			time.Sleep(translate.Told / 4)
		}
		now, _ := at(policed, nil)
		at(policed, fronted)
		if with, _ := at(policed, fronted); !strings.Contains(now, "ns/a/sa/b") || now != with {
			t.Error("the policy does not count, or mutual TLS is not told apart with it")
		}
		if _, after := at(s, nil); after != translate.Told {
			t.Errorf("it left again, and has others after %s", after)
		}
		time.Sleep(translate.Told)
		if now, after := at(s, nil); now != "" || after != 0 {
			t.Errorf("%d bytes in the end, and others after %s", len(now), after)
		}
	})
}

// TestPodsLeaveStrictSlowly: a pod that takes nothing but mutual TLS is spoken to by it, and goes on telling it apart when it takes other things as well, until all have heard of that.
func TestPodsLeaveStrictSlowly(t *testing.T) {
	const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {istio.io/dataplane-mode: ambient}}\n"
	const strict = "---\napiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: strict, namespace: shop}\nspec: {mtls: {mode: STRICT}}\n"
	synctest.Test(t, func(t *testing.T) {
		var d translate.PodListeners
		before, now := snapshotOf(t, "strict", namespace+strict), snapshotOf(t, "permissive", namespace)
		d.Of(before, "shop/web-1", "shop", nil)
		left, after := d.Of(now, "shop/web-1", "shop", nil)
		if after <= 0 || after > translate.Told || len(left[ambient.PodInbound]) == 0 {
			t.Errorf("%d bytes when it is not STRICT any more, and others after %s", len(left[ambient.PodInbound]), after)
		}
		time.Sleep(translate.Told)
		if left, after := d.Of(now, "shop/web-1", "shop", nil); len(left) > 0 || after != 0 {
			t.Errorf("%d listeners in the end, and others after %s", len(left), after)
		}
	})
}
