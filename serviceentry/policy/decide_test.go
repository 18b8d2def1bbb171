package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const objects = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: exact, namespace: default}
spec:
  hosts: [exact.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 80, name: http, protocol: HTTP}
  - {number: 443, name: https, protocol: HTTPS}
  - {number: 5432, name: tcp, protocol: TCP}
  - {number: 3306, name: mysql, protocol: TCP}
  - {number: 9000, name: grpc, protocol: GRPC}
  - {number: 53, name: dns, protocol: UDP}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wild, namespace: default}
spec:
  hosts: ["*.wild.test"]
  location: MESH_EXTERNAL
  resolution: NONE
  ports:
  - {number: 80, name: http, protocol: HTTP}
  - {number: 443, name: https, protocol: HTTPS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: straight, namespace: default, annotations: {egress.sallyport.io/gateway: direct}}
spec:
  hosts: [straight.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 443, name: https, protocol: HTTPS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: elsewhere, namespace: default, annotations: {egress.sallyport.io/gateway: shop/own-gateway}}
spec:
  hosts: [elsewhere.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 443, name: https, protocol: HTTPS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: owner, namespace: default}
spec:
  hosts: [owner.test]
  location: MESH_EXTERNAL
  resolution: STATIC
  addresses: [203.0.113.7, 198.51.100.0/24]
  endpoints: [{address: 203.0.113.7}]
  ports:
  - {number: 80, name: http, protocol: HTTP}
  - {number: 443, name: https, protocol: HTTPS}
  - {number: 5432, name: tcp, protocol: TCP}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: private, namespace: shop}
spec:
  hosts: [private.test]
  location: MESH_EXTERNAL
  resolution: DNS
  exportTo: ["."]
  ports:
  - {number: 443, name: https, protocol: HTTPS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shared, namespace: shop}
spec:
  hosts: [shared.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 443, name: https, protocol: HTTPS}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  clusterIP: 10.96.0.7
  selector: {app: web}
  ports:
  - {name: http, port: 80}
  - {name: tcp, port: 6379}
---
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec:
  selector: {istio: egressgateway}
  ports:
  - {name: https, port: 443, targetPort: 8443}
---
apiVersion: v1
kind: Pod
metadata: {name: egress-1, namespace: istio-system, labels: {istio: egressgateway}}
spec: {serviceAccountName: egress}
status: {podIP: 10.0.0.2, phase: Running}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: narrow, namespace: default}
spec:
  workloadSelector: {labels: {app: narrow}}
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress:
  - hosts: ["./*", "istio-system/*"]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: shut, namespace: default}
spec:
  workloadSelector: {labels: {app: shut}}
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress:
  - hosts: ["istio-system/*"]
`

// read applies YAML to an empty registry.
func read(t testing.TB, allowAny bool, texts ...string) *registry.Snapshot {
	t.Helper()
	cfg := mesh.Default()
	cfg.OutboundAllowAny = allowAny
	return readWith(t, &cfg, texts...)
}

func readWith(t testing.TB, cfg *mesh.Config, texts ...string) *registry.Snapshot {
	t.Helper()
	r := registry.New(cfg)
	for _, text := range texts {
		result := decode.File("objects.yaml", []byte(text))
		for _, f := range result.Findings {
			t.Errorf("%s\n%s", f, text)
		}
		var changes []config.Change
		for i := range result.Objects {
			changes = append(changes, config.Change{Key: result.Objects[i].Key, Object: &result.Objects[i]})
		}
		r.Apply(changes)
	}
	return r.Snapshot()
}

func from(app string) policy.Workload {
	return policy.Workload{Namespace: "default", Name: "app", Labels: map[string]string{"app": app}}
}

func parse(t testing.TB, url string) policy.Destination {
	t.Helper()
	d, err := policy.ParseDestination(url)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// decision is what a test looks at of a verdict.
type decision struct {
	Allowed   bool
	Path      string
	Cluster   string
	DecidedBy string
	Rule      string
	Missing   bool
}

func TestDecide(t *testing.T) {
	const (
		gateway  = "outbound|443||istio-egressgateway.istio-system.svc.cluster.local"
		exact    = "ServiceEntry default/exact"
		owner    = "ServiceEntry default/owner"
		settings = "MeshConfig istio-system/mesh"
		narrow   = "Sidecar default/narrow"
		allowAny = "outboundTrafficPolicy.mode: ALLOW_ANY"
		only     = "outboundTrafficPolicy.mode: REGISTRY_ONLY"
	)
	leaves := func(by, host string) decision {
		return decision{true, "gateway", gateway, by, "hosts: " + host, false}
	}
	wrong := func(by, port string) decision {
		return decision{false, "blackhole", "BlackHoleCluster", by, "ports: " + port, false}
	}
	passes := func(missing bool) decision {
		return decision{true, "passthrough", "PassthroughCluster", settings, allowAny, missing}
	}
	nowhere := func(missing bool) decision {
		return decision{false, "blackhole", "BlackHoleCluster", settings, allowAny, missing}
	}
	closed := func(by string, missing bool) decision {
		return decision{false, "blackhole", "BlackHoleCluster", by, only, missing}
	}
	s := read(t, true, objects)
	for _, tt := range []struct {
		app, url string
		want     decision
	}{
		{"", "http://exact.test/x", leaves(exact, "exact.test")},
		{"", "https://EXACT.test.", leaves(exact, "exact.test")},
		{"", "tls://exact.test:443", leaves(exact, "exact.test")},
		{"", "tcp://exact.test:5432", leaves(exact, "exact.test")},
		{"", "http://exact.test:5432", leaves(exact, "exact.test")}, // only TCP there: nothing is read
		{"", "https://exact.test:3306", leaves(exact, "exact.test")},
		{"", "http://exact.test:9000", leaves(exact, "exact.test")},
		{"", "https://exact.test:80", wrong(exact, "80/HTTP")},
		{"", "tcp://exact.test:80", wrong(exact, "80/HTTP")},
		{"", "http://exact.test:443", wrong(exact, "443/TLS")},
		{"", "tcp://exact.test:443", wrong(exact, "443/TLS")},
		{"", "tls://exact.test:9000", wrong(exact, "9000/HTTP2")},
		{"", "https://exact.test:8443", nowhere(false)}, // its address is made up
		{"", "tcp://exact.test:53", nowhere(false)},
		{"", "http://a.wild.test", leaves("ServiceEntry default/wild", "*.wild.test")},
		{"", "https://a.b.wild.test", leaves("ServiceEntry default/wild", "*.wild.test")},
		{"", "https://wild.test", passes(true)},
		{"", "tcp://a.wild.test:80", passes(true)}, // no name is shown
		{"", "tcp://a.wild.test:5432", passes(true)},
		{"", "https://straight.test", decision{true, "direct", "outbound|443||straight.test", "ServiceEntry default/straight", "hosts: straight.test", false}},
		{"", "https://elsewhere.test", decision{true, "gateway", "outbound|443|egress.|own-gateway.shop.svc.cluster.local", "ServiceEntry default/elsewhere", "hosts: elsewhere.test", false}},
		{"", "http://203.0.113.7", leaves(owner, "owner.test")},
		{"", "tcp://203.0.113.7:5432", leaves(owner, "owner.test")},
		{"", "tcp://198.51.100.9:5432", leaves(owner, "owner.test")},
		{"", "tcp://owner.test:5432", leaves(owner, "owner.test")},
		{"", "https://203.0.113.7", leaves(owner, "owner.test")}, // TLS to an address gives no name
		{"", "https://203.0.113.7:80", passes(true)},
		{"", "tcp://203.0.113.7:9999", passes(true)},
		{"", "tcp://owner.test:9999", passes(false)},
		{"", "http://198.51.100.9", passes(true)}, // ranges are for TCP
		{"", "tcp://240.240.0.1:80", nowhere(true)},
		{"", "https://private.test", passes(true)},
		{"", "https://shared.test", leaves("ServiceEntry shop/shared", "shared.test")},
		{"", "http://web", decision{true, "direct", "outbound|80||web.default.svc.cluster.local", "Service default/web", "hosts: web.default.svc.cluster.local", false}},
		{"", "http://web.default.svc", decision{true, "direct", "outbound|80||web.default.svc.cluster.local", "Service default/web", "hosts: web.default.svc.cluster.local", false}},
		{"", "tcp://web.default:6379", decision{true, "direct", "outbound|6379||web.default.svc.cluster.local", "Service default/web", "hosts: web.default.svc.cluster.local", false}},
		{"", "tcp://10.96.0.7:6379", decision{true, "direct", "outbound|6379||web.default.svc.cluster.local", "Service default/web", "hosts: web.default.svc.cluster.local", false}},
		{"", "https://nobody.test", passes(true)},
		{"", "tcp://nobody.test:5432", passes(true)},

		{"narrow", "https://exact.test", leaves(exact, "exact.test")},
		{"narrow", "https://shared.test", closed(narrow, true)},
		{"narrow", "https://nobody.test", closed(narrow, true)},
		{"narrow", "https://exact.test:8443", closed(narrow, false)},
		{"shut", "https://exact.test", closed("Sidecar default/shut", false)},
		{"shut", "https://nobody.test", closed("Sidecar default/shut", false)},
	} {
		t.Run(tt.app+" "+tt.url, func(t *testing.T) {
			v := policy.Decide(s, from(tt.app), parse(t, tt.url))
			got := decision{v.Allowed, v.Path, v.Cluster, v.DecidedBy.Key.String(), v.DecidedBy.Rule, v.Missing}
			if d := cmp.Diff(tt.want, got); d != "" || v.Reason == "" {
				t.Errorf("%s\n-want +got:\n%s", v.Reason, d)
			}
		})
	}
}

// TestDecideInCluster: the cluster's own networks are not outside, and what nobody registered there is let through.
func TestDecideInCluster(t *testing.T) {
	s := read(t, false, objects, `
apiVersion: v1
kind: Node
metadata: {name: one}
spec: {podCIDRs: [10.4.0.0/24, "fd00:4::/64"]}
status: {addresses: [{type: InternalIP, address: 192.0.2.4}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: default}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: tcp, port: 6379}]}
`)
	for url, want := range map[string]bool{
		"http://10.4.0.9:8080": true, "tcp://10.4.0.9:6379": true, "https://10.4.0.9": true, "http://[fd00:4::9]": true, "https://192.0.2.4:10250": true,
		"http://10.4.1.9": false, "tcp://10.96.0.7:9999": false, "http://nobody.test": false,
		"http://db-0.db.default.svc.cluster.local:8080": true, "tcp://db.default.svc.cluster.local:9999": true, "http://web.default.svc.cluster.local:9999": false,
	} {
		v := policy.Decide(s, from(""), parse(t, url))
		if v.Allowed != want || want && v.Path != policy.PathPassthrough {
			t.Errorf("%s: %+v", url, v)
		}
	}
}

// TestDecideWithoutGateway: a gateway that is not there is said to be missing, and the verdict stands.
func TestDecideWithoutGateway(t *testing.T) {
	s := read(t, false, objects)
	v := policy.Decide(s, from(""), parse(t, "https://elsewhere.test"))
	if want := "registered; leaves by the egress gateway; no endpoint of the egress gateway shop/own-gateway is known: until one is, requests fail"; v.Reason != want || !v.Allowed {
		t.Errorf("%+v", v)
	}
	if v := policy.Decide(s, from(""), parse(t, "https://exact.test")); v.Reason != "registered; leaves by the egress gateway" {
		t.Errorf("%+v", v)
	}
}

// What a gateway, or the sidecar, closes rather than do otherwise is denied, by the object that is to be mended.
func TestDecideClosed(t *testing.T) {
	read := decode.File("closed.yaml", []byte(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: files, namespace: default}
spec: {hosts: [files.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: files, namespace: default}
spec: {host: files.test, trafficPolicy: {tls: {mode: MUTUAL, clientCertificate: /a, privateKey: /b}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: inside, namespace: default}
spec: {hosts: [inside.test], location: MESH_EXTERNAL, resolution: STATIC, endpoints: [{address: 10.0.0.1}], ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: picked, namespace: default}
spec: {hosts: [picked.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: picked, namespace: default}
spec: {host: picked.test, workloadSelector: {matchLabels: {app: web}}, trafficPolicy: {tls: {mode: SIMPLE}}}
`))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	var changes []config.Change
	for i := range read.Objects {
		changes = append(changes, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
	}
	cfg := mesh.Default()
	s, _ := registry.New(&cfg).Apply(changes)
	for _, c := range []struct {
		app, host  string
		allowed    bool
		path, kind string
	}{
		{"api", "files.test", false, policy.PathGateway, "DestinationRule"},
		{"api", "inside.test", false, policy.PathGateway, "ServiceEntry"},
		{"api", "picked.test", true, policy.PathGateway, "ServiceEntry"},
		{"web", "picked.test", false, policy.PathBlackhole, "DestinationRule"},
	} {
		v := policy.Decide(s, policy.Workload{Namespace: "default", Name: "x", Labels: map[string]string{"app": c.app}}, policy.Destination{Scheme: policy.HTTP, Host: c.host, Port: 80})
		if v.Allowed != c.allowed || v.Path != c.path || string(v.DecidedBy.Kind) != c.kind {
			t.Errorf("%s to %s: %+v", c.app, c.host, v)
		}
	}
}
