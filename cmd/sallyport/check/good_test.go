package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/sidecar/inject"
)

const system = "istio-system"

// now is the time of all tests here.
var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// root makes a self-signed certificate that ends so long after now.
func root(t *testing.T, name string, lives time.Duration) string {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.AddDate(-10, 0, 0), NotAfter: now.Add(lives), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

const years = 10 * 365 * 24 * time.Hour

// good is a cluster with nothing to say about: namespace shop is meshed, and a NetworkPolicy holds it.
func good(t *testing.T) *Objects {
	bundle := root(t, "mesh", years)
	service := admissionv1.WebhookClientConfig{CABundle: []byte(bundle)}
	settings := inject.Default()
	settings.Image = "registry.example/sallyport-proxy:v1"
	o := &Objects{
		System: system, Mesh: mesh.Default(), Injection: settings,
		Namespaces: []corev1.Namespace{namespace(system, ""), namespace("kube-system", ""), namespace("shop", "enabled"), namespace("other", "")},
		Pods:       []corev1.Pod{meshed("web-7d-a"), meshed("web-7d-b")},
		Policies: []networkingv1.NetworkPolicy{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "sallyport-egress"},
			Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Egress"}, Egress: []networkingv1.NetworkPolicyEgressRule{
				{To: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}},
			}},
		}},
		Controller: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "sallyport"}, Status: appsv1.DeploymentStatus{ReadyReplicas: 2}},
		Audit:      &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "sallyport-audit"}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 1}},
		Gateway:    &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "istio-egressgateway"}},
		Endpoints:  []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{}, {Conditions: discoveryv1.EndpointConditions{Ready: ptr(true)}}}}},
		Injectors:  []admissionv1.MutatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "sallyport-injector-" + system}, Webhooks: []admissionv1.MutatingWebhook{{Name: "namespace.sidecar-injector.istio.io", ClientConfig: service, FailurePolicy: ptr(admissionv1.Fail)}}}},
		Validators: []admissionv1.ValidatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "sallyport-validator-" + system}, Webhooks: []admissionv1.ValidatingWebhook{{Name: "rev.validation.istio.io", ClientConfig: service}}}},
		Bundles:    map[string]string{system: bundle, "shop": bundle},
		Signer:     map[string]string{"Secret istio-system/istio-ca-secret: data[ca-cert.pem]": bundle},
		Kinds:      map[string]bool{"serviceentries": true, "destinationrules": true, "gateways": true, "sidecars": true, "virtualservices": true, "egresspolicies": true},
		Proxies:    []Proxy{{ID: "sidecar~10.0.0.1~web-7d-a.shop~shop.svc.cluster.local", Synced: true}, {ID: "sidecar~10.0.0.2~web-7d-b.shop~shop.svc.cluster.local", Synced: true}},
	}
	for _, n := range needed {
		o.Roles = append(o.Roles, rbacv1.PolicyRule{APIGroups: []string{n.group}, Resources: n.resources, Verbs: n.verbs})
	}
	return o
}

func namespace(name, injection string) corev1.Namespace {
	ns := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if injection != "" {
		ns.Labels = map[string]string{"istio-injection": injection}
	}
	return ns
}

// plain is a running pod of Deployment shop/web without a proxy.
func plain(name string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			Labels:          map[string]string{"app": "web", "pod-template-hash": "7d"},
			Annotations:     map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-7d", Controller: ptr(true)}},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
	}
}

// meshed is the same with a proxy.
func meshed(name string) corev1.Pod {
	p := plain(name)
	p.Annotations["sidecar.istio.io/status"] = "{}"
	p.Spec.InitContainers = []corev1.Container{{Name: inject.InitName, SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"}}}}}
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: inject.ProxyName, Image: "registry.example/sallyport-proxy:v1", SecurityContext: &corev1.SecurityContext{RunAsUser: ptr(int64(proxyID))}})
	return p
}
