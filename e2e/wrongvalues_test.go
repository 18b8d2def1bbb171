package e2e

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// wrongValues are objects of a neighbour's with addresses, ports and weights that Envoy refuses.
const wrongValues = `
{apiVersion: v1, kind: Service, metadata: {name: wrong, namespace: neighbour}, spec: {clusterIP: 10.96.9.9, selector: {app: wrong}, ports: [{name: http, port: 80, targetPort: web}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: wrong-1, namespace: neighbour, labels: {app: wrong}}, spec: {containers: [{name: c, image: i, ports: [{name: web, containerPort: 8080}]}]}, status: {phase: Running, podIP: not-an-address, podIPs: [{ip: not-an-address}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: wrong-2, namespace: neighbour, labels: {app: wrong}}, spec: {containers: [{name: c, image: i, ports: [{name: web, containerPort: -8080}]}]}, status: {phase: Running, podIP: 10.96.9.10}}
---
{apiVersion: v1, kind: Service, metadata: {name: names, namespace: neighbour}, spec: {clusterIP: 10.96.9.11, ports: [{name: http, port: 80}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: names-1, namespace: neighbour, labels: {kubernetes.io/service-name: names}}, addressType: FQDN, ports: [{name: http, port: 8080}], endpoints: [{addresses: [wrong.test]}]}
---
{apiVersion: v1, kind: Service, metadata: {name: zone, namespace: neighbour}, spec: {clusterIP: 10.96.9.12, ports: [{name: http, port: 80}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: zone-1, namespace: neighbour, labels: {kubernetes.io/service-name: zone}}, addressType: IPv6, ports: [{name: http, port: 8080}], endpoints: [{addresses: ["fe80::1%eth0"]}]}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: weighs, namespace: istio-system}, spec: {hosts: [weighs.test], location: MESH_INTERNAL, resolution: STATIC, endpoints: [{address: 192.0.2.51, weight: 4294967295}, {address: 192.0.2.52, weight: 4294967295}], ports: [{number: 80, name: http, protocol: HTTP}]}}
`

var nacked = regexp.MustCompile(`^sallyport_xds_refused_total\S* [1-9]`)

// TestWrongValuesHarmNobody: what a neighbour's objects say wrongly makes no Envoy refuse anything, neither theirs nor what comes next.
func TestWrongValuesHarmNobody(t *testing.T) {
	needRoot(t)
	ctx, s := setScene(t, story.InNamespaces)
	serveOther(ctx, t, s, []uint16{80})
	s.Outside.Set("after.wrong.test", time.Minute, otherAddr)
	if err := s.Config.Write("wrong.yaml", wrongValues); err != nil {
		t.Fatal(err)
	}
	app := appOf(s)
	if _, err := app.answered(ctx, "weighs.test"); err != nil { // it is there, and what was written beside it
		t.Fatal(err)
	}
	if err := s.Config.Write("after.yaml", `{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: after, namespace: default}, spec: {hosts: [after.wrong.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}}`); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(ctx, time.Minute, func() error {
		_, err := app.try(ctx, "http", "after.wrong.test", 80, "/")
		return err
	}); err != nil {
		t.Errorf("what was registered after it: %v", err)
	}
	metrics, err := s.Controller.Admin(ctx, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(metrics)) {
		if nacked.MatchString(line) {
			t.Errorf("an Envoy has refused something: %s", line)
		}
	}
	said, _ := s.Call(ctx, "lint", s.Config.Path)
	for _, want := range []string{`status.podIP: "not-an-address": is no IP address`, `spec.containers[0].ports[0].containerPort: "-8080"`, `"fe80::1%eth0"`} {
		if !strings.Contains(string(said), want) {
			t.Errorf("lint does not say %s:\n%s", want, said)
		}
	}
}
