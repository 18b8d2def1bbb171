package policy_test

import (
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// TestToWhatEntriesLeadTo: a pod, or a machine, that no Service selects is known by the ServiceEntry that leads to it.
func TestToWhatEntriesLeadTo(t *testing.T) {
	s := read(t, true, `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: led, namespace: shop}
spec:
  hosts: [led.example]
  location: MESH_INTERNAL
  resolution: STATIC
  workloadSelector: {labels: {group: led}}
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: machine, namespace: shop}
spec: {address: 192.0.2.9, labels: {group: led, app: machine}, serviceAccount: machine}
---
apiVersion: v1
kind: Pod
metadata: {name: pod-1, namespace: shop, labels: {group: led, app: pod}}
spec: {containers: []}
status: {podIP: 10.4.0.8, phase: Running}
`)
	for _, to := range []string{"shop/machine?app=machine", "shop/pod?app=pod"} {
		if e := answer(t, s, policy.Question{From: "shop/app", To: to, URL: "http://led.example:8080/"}); e.Cluster != "inbound|8080||" {
			t.Errorf("to %s it is of cluster %q: %s", to, e.Cluster, e.Reason)
		}
		if e := answer(t, s, policy.Question{From: "shop/app", To: to, URL: "tcp://led.example:8080"}); e.Verdict != "deny" {
			t.Errorf("to %s, of which it is said that it is HTTP, bytes are %s: %s", to, e.Verdict, e.Reason)
		}
	}
}
