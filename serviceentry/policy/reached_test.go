package policy_test

import (
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// pods are three Services of a namespace, each with one pod: with a sidecar, one that its node's proxy serves, and one without any proxy.
const pods = `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict, namespace: shop}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: issuer, namespace: shop}
spec:
  jwtRules:
  - issuer: https://issuer.example
    jwks: '{"keys":[{"kty":"oct","kid":"a","k":"c2VjcmV0"}]}'
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: readers, namespace: shop}
spec:
  rules:
  - when: [{key: "request.auth.claims[scope]", values: [read]}]
---
apiVersion: v1
kind: Service
metadata: {name: sidecar, namespace: shop}
spec: {selector: {app: sidecar}, clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: sidecar, namespace: shop, labels: {app: sidecar, security.istio.io/tlsMode: istio}}
status: {podIP: 10.0.0.1, phase: Running}
---
apiVersion: v1
kind: Service
metadata: {name: ambient, namespace: shop}
spec: {selector: {app: ambient}, clusterIP: 10.96.0.2, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ambient, namespace: shop, labels: {app: ambient, istio.io/dataplane-mode: ambient, security.istio.io/tlsMode: istio}}
status: {podIP: 10.0.0.2, phase: Running}
---
apiVersion: v1
kind: Service
metadata: {name: bare, namespace: shop}
spec: {selector: {app: bare}, clusterIP: 10.96.0.3, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: shop, labels: {app: bare}}
status: {podIP: 10.0.0.3, phase: Running}
`

// TestPodsThatNobodyKnows: of what a node's proxy says nothing is said, least of all that it allows, also where the pod's labels are such as with a sidecar.
func TestPodsThatNobodyKnows(t *testing.T) {
	s := read(t, true, pods)
	for host, want := range map[string]string{"sidecar.shop": "deny", "ambient.shop": "unknown", "bare.shop": "allow"} {
		e := answer(t, s, policy.Question{From: "shop/app", URL: "http://" + host + "/"})
		if len(e.Pods) != 1 || e.Pods[0].Verdict != want || e.Verdict == "deny" != (want == "deny") {
			t.Errorf("%s: %s, %+v; want %s of the pod", host, e.Verdict, e.Pods, want)
		}
	}
}

// TestClaimsOfWords: of a claim that proxies read as words each is a value of its own.
func TestClaimsOfWords(t *testing.T) {
	s := read(t, true, pods)
	for claim, want := range map[string]string{"scope=write read": "allow", "scope=write": "deny", "other=read": "deny"} {
		e := answer(t, s, policy.Question{From: "shop/app", To: "shop/sidecar?app=sidecar", URL: "http://sidecar.shop/", Claims: []string{"iss=https://issuer.example", claim}})
		if e.Verdict != want {
			t.Errorf("%s: %+v, want %s", claim, e, want)
		}
	}
}

// answer is what somebody is told.
func answer(t *testing.T, s *registry.Snapshot, q policy.Question) policy.Explanation {
	t.Helper()
	from, to, err := q.Workloads()
	if err != nil {
		t.Fatal(err)
	}
	d, err := q.Destination()
	if err != nil {
		t.Fatal(err)
	}
	e, err := q.Answer(s, from, to, d)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
