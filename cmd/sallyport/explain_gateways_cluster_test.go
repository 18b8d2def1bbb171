package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
)

// doors are Gateways of a cluster, for what comes in and what leaves, with a route at each.
const doors = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: out, namespace: istio-system}
spec:
  gatewayClassName: sallyport-egress
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: partner, namespace: shop}
spec:
  parentRefs: [{name: out, namespace: istio-system}]
  hostnames: [partner.example.com]
  rules:
  - matches: [{path: {type: PathPrefix, value: /v1}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: partner.example.com, port: 443}]
---
apiVersion: v1
kind: Service
metadata: {name: pay, namespace: shop}
spec: {selector: {app: pay}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: door, namespace: shop}
spec:
  gatewayClassName: sallyport
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: shown}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: pay, namespace: shop}
spec:
  parentRefs: [{name: door}]
  hostnames: [pay.example.com]
  rules: [{backendRefs: [{name: pay, port: 80}]}]
`

// explainGateways: what is asked about Gateways of a cluster is answered from what its API server holds, also to who may read no Secret.
func (a *clusterLab) explainGateways(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", a.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := apiserver.ApplyGatewayAPICRDs(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(config)
	for text := range strings.SplitSeq(doors, "---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		resource := schema.GroupVersionResource{Group: o.GroupVersionKind().Group, Version: "v1", Resource: strings.ToLower(o.GetKind()) + "s"}
		a.made(client.Resource(resource).Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{}))
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--from shop/app?app=x http://partner.example.com/v1/orders", exitDone, "led there by HTTPRoute shop/partner"},
		{"--from shop/app?app=x http://partner.example.com/v2", exitNo, "HTTPRoute shop/partner"},
		{"--gateway shop/door http://pay.example.com/", exitDone, "decided by HTTPRoute shop/pay"},
		{"--gateway shop/door http://other.example.com/", exitNo, "answer     404"},
		{"--gateway shop/door https://pay.example.com/", exitNo, "there is no Secret shop/shown"},
		{"--gateway shop/nobody http://pay.example.com/", exitUsage, "there is no Gateway of that name"},
	} {
		if out, errs, code := a.run(explainCommand(), strings.Fields(c.args)...); code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit %d, want %d and %q in:\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
	}
	a.ledPod(t)
	read := []string{"get", "list", "watch"}
	blind := a.as("blind",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces", "services", "pods", "nodes", "configmaps", "serviceaccounts"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{"gateway.networking.k8s.io", "networking.istio.io", "security.istio.io", "telemetry.istio.io", "extensions.istio.io", "egress.sallyport.io", "discovery.k8s.io", "apps"}, Resources: []string{"*"}, Verbs: read},
	)
	if out, errs, code := blind.run(explainCommand(), "--gateway", "shop/door", "https://pay.example.com/"); code != exitDone || !strings.Contains(out, "whether Secret shop/shown is there is not known here") {
		t.Errorf("to who may read no Secret: exit %d\n%s%s", code, out, errs)
	}
}

// ledPod: a pod that only a ServiceEntry leads to, by its address, is known by that.
func (a *clusterLab) ledPod(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "led-1", Labels: map[string]string{"app": "led"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
	a.made(a.client.CoreV1().Pods("shop").Create(t.Context(), pod, metav1.CreateOptions{}))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.4.0.8", PodIPs: []corev1.PodIP{{IP: "10.4.0.8"}}}
	a.made(a.client.CoreV1().Pods("shop").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}))
	a.entry("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: led, namespace: shop}\nspec: {hosts: [led.example], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}], endpoints: [{address: 10.4.0.8}]}\n")
	if out, errs, code := a.run(explainCommand(), "--to", "shop/led-1", "--from", "shop/app?app=x", "http://led.example:8080/"); code != exitDone || !strings.Contains(out, "cluster    inbound|8080||\n") {
		t.Errorf("a pod that an entry leads to: exit %d\n%s%s", code, out, errs)
	}
}
