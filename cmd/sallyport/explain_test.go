package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport/sallyport/cmd/sallyport/controlplane"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

const explained = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: external, namespace: default}
spec:
  hosts: [external.com]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 80, name: http, protocol: HTTP}
  - {number: 443, name: https, protocol: HTTPS}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: narrow, namespace: default}
spec:
  workloadSelector: {labels: {app: narrow}}
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress: [{hosts: ["istio-system/*"]}]
`

const meshed = `apiVersion: v1
kind: Service
metadata: {name: pay, namespace: shop}
spec: {clusterIP: 10.96.0.9, selector: {app: pay}, ports: [{name: http, port: 80, targetPort: web}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pay-1, namespace: shop, labels: {app: pay, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: pay, containers: [{name: app, ports: [{name: web, containerPort: 8080}]}]}
status: {phase: Running, podIP: 10.4.0.5, podIPs: [{ip: 10.4.0.5}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: pay-1, namespace: shop, labels: {kubernetes.io/service-name: pay}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.4.0.5], conditions: {ready: true}, targetRef: {kind: Pod, name: pay-1, namespace: shop}}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict, namespace: shop}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: shop}
spec: {jwtRules: [{issuer: "https://issuer.example", jwks: '{"keys":[{"kty":"oct","k":"AAAA"}]}'}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: buyers, namespace: shop}
spec:
  selector: {matchLabels: {app: pay}}
  rules:
  - {from: [{source: {namespaces: [web]}}], to: [{operation: {methods: [GET], ports: ["8080"]}}]}
  - {from: [{source: {requestPrincipals: ["https://issuer.example/anna"]}}]}
`

const entered = `apiVersion: v1
kind: Service
metadata: {name: door-sallyport, namespace: shop}
spec: {clusterIP: 10.96.0.8, selector: {gateway.networking.k8s.io/gateway-name: door}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: pay, namespace: shop}
spec: {clusterIP: 10.96.0.9, selector: {app: pay}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pay-1, namespace: shop, labels: {app: pay}}
spec: {serviceAccountName: pay, containers: []}
status: {phase: Running, podIP: 10.4.0.5}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: door, namespace: shop}
spec: {gatewayClassName: sallyport, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: pay, namespace: shop}
spec:
  parentRefs: [{name: door}]
  hostnames: [pay.example.com]
  rules:
  - backendRefs: [{name: pay, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /old}}]
    filters: [{type: RequestRedirect, requestRedirect: {hostname: new.example.com, statusCode: 301}}]
`

// controlled has entries that lead to where the control plane is: as its Service says, and on this machine (OWN).
const controlled = `apiVersion: v1
kind: Service
metadata: {name: sallyport, namespace: istio-system}
spec: {clusterIP: 203.0.113.15, ports: [{name: xds, port: 15012}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: by-service, namespace: default}
spec: {hosts: [by-service.test], location: MESH_EXTERNAL, resolution: STATIC, endpoints: [{address: 203.0.113.15}], ports: [{number: 15012, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: here, namespace: default}
spec: {hosts: [here.test], location: MESH_EXTERNAL, resolution: STATIC, endpoints: [{address: OWN}], ports: [{number: 15012, name: tls, protocol: TLS}]}
`

// TestExplainKnowsTheControlPlane: no shared gateway is led to the control plane, and explain from files says so as a controller on them does it.
func TestExplainKnowsTheControlPlane(t *testing.T) {
	own := controlplane.OwnAddresses()
	if len(own) == 0 {
		t.Skip("this machine has no address that others reach it by")
	}
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("mesh", 0o755), os.WriteFile("mesh/m.yaml", []byte(strings.ReplaceAll(controlled, "OWN", own[0].String())), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"tls://by-service.test:15012", "tls://here.test:15012"} {
		out, errs, code, err := call(t, "explain", "--config-dir", "mesh", "--from", "default/app", url)
		if code != exitNo || !strings.Contains(out, "is a gateway of the mesh, or its control plane") {
			t.Errorf("%s: exit %d (%v):\n%s%s", url, code, err, out, errs)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"mesh/e.yaml": explained, "broken/e.yaml": explained, "broken/b.yaml": "a: [", "only.yaml": "outboundTrafficPolicy: {mode: REGISTRY_ONLY}", "wrong.yaml": "rootNamspace: x",
		"empty/notes.txt": "", "meshed/m.yaml": meshed, "entered/m.yaml": entered,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args string
		code int
		want string // in stdout, or in the error
	}{
		{"--config-dir mesh --from default/app https://external.com", exitDone, "verdict    allow\npath       gateway\n"},
		{"--config-dir mesh --from default/app https://external.com", exitDone, "decided by ServiceEntry default/external (hosts: external.com)\n"},
		{"--config-dir mesh --from default/app https://external.com", exitDone, "gateway    istio-system/istio-egressgateway\n"},
		{"--config-dir mesh --from default/app http://external.com:443", exitNo, "verdict    deny\n"},
		{"--config-dir mesh --from default/app https://other.com", exitDone, "path       passthrough\n"},
		{"--config-dir mesh --from default/app?app=narrow https://external.com", exitNo, "Sidecar default/narrow"},
		{"--config-dir mesh --mesh-config only.yaml --from default/app https://other.com", exitNo, "To register it:\n\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"},
		{"--config-dir empty --from default/app https://other.com", exitDone, "nobody registered the host"},
		{"--config-dir broken --from default/app https://external.com", exitDone, "verdict    allow\n"},
		{"--from default/app https://external.com", exitUsage, "--config-dir"},
		{"--up mesh https://external.com", exitDone, "verdict    allow\npath       gateway\ncluster    outbound|443||external.com\n"},
		{"--up mesh --from team/x http://external.com", exitDone, "leaves by the forward proxy"},
		{"--up mesh --from default/app?app=narrow https://external.com", exitDone, "verdict    allow\n"},
		{"--up mesh https://other.com", exitNo, "up lets out only what is registered"},
		{"--up mesh https://other.com", exitNo, "To register it:"},
		{"--up mesh https://203.0.113.7", exitNo, "up is asked for names"},
		{"--up mesh tcp://external.com:443", exitNo, "registered as TLS"},
		{"--up mesh -o json https://other.com", exitNo, `"verdict": "deny"`},
		{"--up mesh --from app https://external.com", exitUsage, "must be NAMESPACE/WORKLOAD"},
		{"--up none https://external.com", exitUsage, `--up "none": there is no such directory`},
		{"--up mesh --config-dir mesh https://external.com", exitUsage, "give one of them"},
		{"--config-dir meshed --from web/app http://pay.shop/", exitDone, "pods       10.4.0.5 at port 8080: allow\nmutual TLS STRICT, and comes by it\ndecided by AuthorizationPolicy shop/buyers (rules[0])"},
		{"--config-dir meshed --from web/app --method POST http://pay.shop/", exitNo, "whose pods refuse it: denied by AuthorizationPolicy shop/buyers: no rule that allows matches"},
		{"--config-dir meshed --from other/app http://pay.shop/", exitNo, "decided by AuthorizationPolicy shop/buyers (default)"},
		{"--config-dir meshed --to shop/pay?app=pay --from web/app http://pay:8080/", exitDone, "path       inbound\ncluster    inbound|8080||\nmutual TLS STRICT\n"},
		{"--config-dir meshed --to shop/pay?app=pay --from web/app http://pay:8080/", exitDone, "pod    shop/buyers  Enforce  rules[0]  Allow, and decides"},
		{"--config-dir meshed --to shop/pay?app=pay --from web/app --plaintext http://pay:8080/", exitNo, "decided by PeerAuthentication shop/strict (mtls: STRICT)"},
		{"--config-dir meshed --to shop/pay?app=pay --address 192.0.2.7 http://pay:8080/", exitNo, "the pod takes mutual TLS of the mesh only"},
		{"--config-dir meshed --to shop/pay?app=pay --from other/app tcp://pay:8080", exitNo, "port 8080 of the pod is HTTP, and tcp is not that"},
		{"--config-dir meshed --to shop/pay?app=pay --from other/app --claim iss=https://issuer.example --claim sub=anna http://pay:8080/", exitDone, "allowed by AuthorizationPolicy shop/buyers: rules[1]"},
		{"--config-dir meshed --to shop/pay?app=pay --from other/app --claim iss=https://other.example --claim sub=anna http://pay:8080/", exitNo, "decided by RequestAuthentication shop/tokens (jwtRules)"},
		{"--config-dir meshed --to shop/pay?app=pay --claim anna http://pay:8080/", exitUsage, "must be NAME=VALUE"},
		{"--config-dir meshed --from web/app --claim sub=anna http://pay.shop/", exitUsage, "say the pod with --to"},
		{"--config-dir meshed --to pay http://pay:8080/", exitUsage, "--to \"pay\": must be NAMESPACE/WORKLOAD"},
		{"--config-dir meshed --from web/app --plaintext http://pay.shop/", exitUsage, "--plaintext: it is about what comes to a pod"},
		{"--config-dir entered --gateway shop/door --method POST http://pay.example.com/cart", exitDone, "path       ingress\nserver     Gateway.gateway.networking.k8s.io shop/door (http)\ncluster    outbound|80||pay.shop.svc.cluster.local\ngateway    shop/door-sallyport\ndecided by HTTPRoute shop/pay"},
		{"--config-dir entered --gateway shop/door http://pay.example.com/cart", exitDone, "\npods       10.4.0.5 at port 8080: allow\n"},
		{"--config-dir entered --gateway shop/door-sallyport http://pay.example.com/old", exitNo, "answer     301\n"},
		{"--config-dir entered --gateway shop/door -o json http://other.example.com/", exitNo, "\"status\": 404"},
		{"--config-dir entered --gateway shop/door --from shop/pay http://pay.example.com/", exitUsage, "is outside of the mesh"},
		{"--config-dir entered --gateway shop/door --to shop/pay http://pay.example.com/", exitUsage, "is part of the answer"},
		{"--config-dir entered --gateway shop/nobody http://pay.example.com/", exitUsage, "there is no Gateway of that name"},
		{"--config-dir entered --gateway shop/door --address x http://pay.example.com/", exitUsage, "--address \"x\""},
		{"--config-dir entered --gateway shop/door --method POST tcp://pay.example.com:80", exitUsage, "proxies read no requests in tcp"},
		{"--up mesh --gateway shop/door http://pay.example.com/", exitUsage, "nothing comes in by up"},
		{"--up mesh --to shop/pay https://external.com", exitUsage, "no pod is behind it"},
		{"--data mesh https://external.com", exitFailed, "no sallyport up or controller runs with this folder"},
		{"--data mesh --mesh-config only.yaml https://external.com", exitUsage, "settings of its own"},
		{"--data none https://external.com", exitUsage, "no such directory"},
		{"--config-dir none --from default/app https://external.com", exitUsage, `"none": there is no such directory`},
		{"--config-dir mesh https://external.com", exitUsage, "must be NAMESPACE/WORKLOAD"},
		{"--config-dir mesh --from Default/app https://external.com", exitUsage, `no namespace can be called "Default"`},
		{"--config-dir mesh --from app https://external.com", exitUsage, "must be NAMESPACE/WORKLOAD"},
		{"--config-dir mesh --from default/app --header :path=/x http://external.com", exitUsage, "no header of a request is called so"},
		{"--config-dir mesh --from default/app --header host=x http://external.com", exitUsage, "say the host in the URL"},
		{"--config-dir mesh --from default/app --method G(T http://external.com", exitUsage, "no method is called so"},
		{"--config-dir mesh --from default/app?%zz https://external.com", exitUsage, "labels"},
		{"--config-dir mesh --from default/a\x1b[31m https://external.com", exitUsage, `no workload can be called "a\x1b[31m"`},
		{"--config-dir mesh --from default/App https://external.com", exitUsage, "no workload can be called"},
		{"--config-dir mesh --from default/app?app=a&app=b https://external.com", exitUsage, `the label "app" is there 2 times`},
		{"--config-dir mesh --from default/app?app=%07 https://external.com", exitUsage, `no label can be "app=\a"`},
		{"--config-dir mesh --from default/app", exitUsage, "takes one URL"},
		{"--config-dir mesh --from default/app a b", exitUsage, "got 2 arguments"},
		{"--config-dir mesh --from default/app external.com", exitUsage, "none of http, https, tls, tcp"},
		{"--config-dir mesh --from default/app http://external.com./", exitDone, "verdict    allow"},
		{"--config-dir mesh --from default/app https://external.com../", exitUsage, "ends in two dots"},
		{"--config-dir mesh --from default/app https://external.com./", exitDone, "verdict    allow"},
		{"--config-dir entered --gateway shop/door http://pay.example.com./cart", exitDone, "decided by HTTPRoute shop/pay"},
		{"--config-dir mesh --from default/app -o yaml https://external.com", exitUsage, "must be text or json"},
		{"--config-dir mesh --mesh-config wrong.yaml --from default/app https://external.com", exitUsage, "rootNamespace"},
		{"--config-dir mesh --colour https://external.com", exitUsage, "--colour"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			out, errs, code, err := call(t, append([]string{"explain"}, strings.Fields(tt.args)...)...)
			text := out
			if code >= exitUsage {
				text = err.Error()
			}
			if code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("exit %d (%v), want %d and %q in:\n%s%s", code, err, tt.code, tt.want, out, errs)
			}
		})
	}
	for _, format := range []string{"text", "json"} {
		if err := printExplanation(fullDisk{}, format, policy.Explanation{Verdict: "allow"}); exitCode(err) != exitFailed {
			t.Errorf("%s: what could not be printed is %v", format, err)
		}
	}
	_, errs, _, _ := call(t, "explain", "--config-dir", "broken", "--from", "default/app", "https://external.com")
	if !strings.Contains(errs, "b.yaml") {
		t.Errorf("what is wrong in the directory is not said: %q", errs)
	}
}

// TestExplainJSON: scripts read these fields.
func TestExplainJSON(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "e.yaml"), []byte(explained), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, code, _ := call(t, "explain", "--config-dir", dir, "--from", "default/app", "-o", "json", "https://external.com")
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitDone {
		t.Fatalf("%d, %v: %s", code, err, out)
	}
	by, _ := got["decidedBy"].(map[string]any)
	for field, want := range map[string]any{
		"verdict": "allow", "path": "gateway", "cluster": "outbound|443||istio-egressgateway.istio-system.svc.cluster.local",
		"gateway": "istio-system/istio-egressgateway", "suggestion": "",
	} {
		if got[field] != want {
			t.Errorf("%s: %v, want %v", field, got[field], want)
		}
	}
	if by["kind"] != "ServiceEntry" || by["namespace"] != "default" || by["name"] != "external" || by["rule"] != "hosts: external.com" || got["reason"] == "" {
		t.Errorf("%s", out)
	}
	out, _, code, _ = call(t, "explain", "--config-dir", dir, "--from", "default/app?app=narrow", "-o", "json", "https://external.com")
	if code != exitNo || !strings.Contains(out, `"verdict": "deny"`) {
		t.Errorf("%d %s", code, out)
	}
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
