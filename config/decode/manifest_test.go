package decode

import (
	"testing"

	"github.com/sallyport/sallyport/config"
)

// TestManifest: what is written of an object is read as the same object.
func TestManifest(t *testing.T) {
	r := File("a.yaml", []byte(`apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: p, namespace: a, labels: {l: "1"}, annotations: {egress.sallyport.io/note: "x: [y"}, creationTimestamp: "2024-01-02T03:04:05Z"}
spec:
  selector: {matchLabels: {app: "true"}}
  mode: Observe
  default: Deny
  rules: [{name: r, action: Allow, hosts: ["*.x.test"], ports: [443], expires: "2030-01-31T00:00:00Z", reason: "a\\b, é"}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: p}
spec: {action: DENY, rules: [{from: [{source: {notNamespaces: [a]}}], when: [{key: "request.headers[x]", values: ["1"]}]}]}
---
apiVersion: security.istio.io/v1beta1
kind: PeerAuthentication
metadata: {name: p, namespace: a}
spec: {mtls: {mode: STRICT}, selector: {matchLabels: {a: b}}, portLevelMtls: {8080: {mode: DISABLE}}}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: p, namespace: a}
spec: {jwtRules: [{issuer: "https://i.test", jwks: '{"keys":[]}', timeout: 5s}]}
---
apiVersion: networking.istio.io/v1alpha3
kind: Sidecar
metadata: {name: p, namespace: a}
spec: {outboundTrafficPolicy: {mode: REGISTRY_ONLY}, egress: [{hosts: ["./*"], port: {number: 80, protocol: HTTP, name: h}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: p, namespace: a}
spec: {host: x.test, trafficPolicy: {connectionPool: {tcp: {connectTimeout: 1500ms}}, tls: {mode: SIMPLE}}}
`))
	if len(r.Objects) != 6 || len(r.Findings) > 0 {
		t.Fatalf("%+v", r)
	}
	for _, o := range r.Objects {
		text, err := Manifest(&o)
		if err != nil {
			t.Fatal(err)
		}
		again := File("b.yaml", text)
		if len(again.Objects) != 1 || again.Objects[0].Hash != o.Hash || again.Objects[0].Revision != o.Revision {
			t.Errorf("%s:\n%s\n%v", o.Key, text, again.Findings)
		}
	}
	if text, err := Manifest(&config.Object{Key: config.Key{Kind: config.KindSecret, Name: "s"}}); err == nil {
		t.Errorf("a Secret is written: %s", text)
	}
}
