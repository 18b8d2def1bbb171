package controlplane

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	istioapi "istio.io/api/networking/v1"
	istio "istio.io/client-go/pkg/apis/networking/v1"
	istioclient "istio.io/client-go/pkg/clientset/versioned"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/e2e/freeport"
)

const system = "istio-system"

// inCluster is a control plane whose configuration is a real API server's.
type inCluster struct {
	*lab
	client kubernetes.Interface
	istio  istioclient.Interface
}

func beginInCluster(t *testing.T, config *rest.Config) *inCluster {
	return beginWithLog(t, config, "")
}

// beginWithLog is beginInCluster with an audit server, by its socket.
func beginWithLog(t *testing.T, config *rest.Config, auditSocket string) *inCluster {
	t.Helper()
	c := &inCluster{lab: &lab{T: t, data: t.TempDir(), ended: make(chan error, 1)}}
	c.client, c.istio = kubernetes.NewForConfigOrDie(config), istioclient.NewForConfigOrDie(config)
	for _, ns := range []string{system, "shop"} {
		c.made(c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"istio-injection": "enabled"}}}, metav1.CreateOptions{}))
	}
	webhooks, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	c.made(c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), validator(webhooks), metav1.CreateOptions{}))
	injection := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(injection, []byte("image: sallyport-proxy:test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	listening := make(chan Addresses, 1)
	c.stop = stop
	go func() {
		c.ended <- Run(ctx, Config{
			Cluster: &Cluster{
				REST: config, Namespace: system, Service: "sallyport", Replica: "one", WebhookAddr: webhooks, InjectionConfigFile: injection,
			},
			DataDir: c.data, SecureAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", HealthAddr: "127.0.0.1:0", AuditSocket: auditSocket,
			Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Listening: func(a Addresses) { listening <- a },
		})
	}()
	select {
	case c.at = <-listening:
	case err := <-c.ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

// made fails the test when an object could not be made; one that is there already will do.
func (c *inCluster) made(_ any, err error) {
	c.Helper()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		c.Fatal(err)
	}
}

func external(host string) *istio.ServiceEntry {
	return &istio.ServiceEntry{
		ObjectMeta: metav1.ObjectMeta{Name: "external", Namespace: "shop"},
		Spec: istioapi.ServiceEntry{
			Hosts: []string{host}, Location: istioapi.ServiceEntry_MESH_EXTERNAL, Resolution: istioapi.ServiceEntry_DNS,
			Ports: []*istioapi.ServicePort{{Number: 443, Name: "https", Protocol: "HTTPS"}},
		},
	}
}

// TestInCluster: objects come from the API server and their status goes back; the CA is in a Secret and its bundle in
// every namespace and webhook; pods get their proxy, and wrong objects are refused.
func TestInCluster(t *testing.T) {
	config := apiserver.Start(t)
	if err := apiserver.ApplyGatewayAPICRDs(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	c := beginInCluster(t, config)
	ctx := t.Context()
	c.becomes("the trust bundle is in every namespace", func() bool {
		m, err := c.client.CoreV1().ConfigMaps("shop").Get(ctx, "istio-ca-root-cert", metav1.GetOptions{})
		return err == nil && strings.Contains(m.Data["root-cert.pem"], "BEGIN CERTIFICATE")
	})
	c.becomes("the bundle is in the webhooks", func() bool {
		v, err := c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "sallyport-validator-"+system, metav1.GetOptions{})
		return err == nil && len(v.Webhooks[0].ClientConfig.CABundle) > 0
	})
	if _, err := c.client.CoreV1().Secrets(system).Get(ctx, "istio-ca-secret", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}

	entries := c.istio.NetworkingV1().ServiceEntries("shop")
	c.made(entries.Create(ctx, external("external.test"), metav1.CreateOptions{}))
	c.becomes("the status names the gateway", func() bool {
		e, err := entries.Get(ctx, "external", metav1.GetOptions{})
		if err != nil {
			return false
		}
		text, _ := json.Marshal(&e.Status)
		return strings.Contains(string(text), "istio-system/istio-egressgateway") && strings.Contains(string(text), "240.240.")
	})

	c.becomes("a wrong entry is refused", func() bool {
		wrong := external("external..test")
		wrong.Name = "wrong"
		_, err := entries.Create(ctx, wrong, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "spec.hosts[0]")
	})

	policies := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "egresspolicies"}).Namespace("shop")
	c.made(policies.Create(ctx, egressPolicy(map[string]any{"hosts": []any{"external.test"}, "action": "Allow"}), metav1.CreateOptions{}))
	c.becomes("the status says which revision of the policy is in use", func() bool {
		p, err := policies.Get(ctx, "checkout", metav1.GetOptions{})
		if err != nil {
			return false
		}
		text, _ := json.Marshal(p.Object["status"])
		return strings.Contains(string(text), `"observedRevision"`) && strings.Contains(string(text), `"rules":1`) && strings.Contains(string(text), `"reason":"Accepted"`)
	})
	overruling := egressPolicy(map[string]any{"hosts": []any{"external.test"}, "action": "Allow", "final": true})
	overruling.SetName("overruling")
	if _, err := policies.Create(ctx, overruling, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil || !strings.Contains(err.Error(), "cannot overrule others") {
		t.Errorf("a policy of another namespace than the root's that is final: %v", err)
	}
	c.egressGateways(config)
}

func egressPolicy(rule map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "egress.sallyport.io/v1alpha1", "kind": "EgressPolicy", "metadata": map[string]any{"name": "checkout", "namespace": "shop"},
		"spec": map[string]any{"rules": []any{rule}},
	}}
}

// validator asks the plane at its address, and has no bundle: the leader puts it there.
func validator(address string) *admissionv1.ValidatingWebhookConfiguration {
	url, fail, none := "https://"+address+"/validate", admissionv1.Fail, admissionv1.SideEffectClassNone
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "sallyport-validator-" + system},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "validator.sallyport.io", AdmissionReviewVersions: []string{"v1"}, FailurePolicy: &fail, SideEffects: &none,
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"networking.istio.io", v1alpha1.Group}, APIVersions: []string{"*"}, Resources: []string{"serviceentries", "egresspolicies"}},
			}},
		}},
	}
}

// TestPodsAreWhatTheyAre: a token of a pod gets the pod's configuration, and no other pod's.
func TestPodsAreWhatTheyAre(t *testing.T) {
	config := apiserver.Start(t)
	c := beginInCluster(t, config)
	ctx := t.Context()
	for _, name := range []string{"app", "other"} {
		c.made(c.client.CoreV1().ServiceAccounts("shop").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
			Spec:       corev1.PodSpec{ServiceAccountName: name, Containers: []corev1.Container{{Name: "app", Image: "none"}}},
		}
		c.made(c.client.CoreV1().Pods("shop").Create(ctx, pod, metav1.CreateOptions{}))
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address(name), PodIPs: []corev1.PodIP{{IP: address(name)}}}
		c.made(c.client.CoreV1().Pods("shop").UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
	}
	token, err := c.client.CoreV1().ServiceAccounts("shop").CreateToken(ctx, "app", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{"istio-ca"}, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "app"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conn := c.secure()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token.Status.Token)
	ask := func(pod string) error {
		return c.clusters(ctx, conn, "sidecar~"+address(pod)+"~"+pod+".shop~shop.svc.cluster.local")
	}
	c.becomes("the pod gets its configuration", func() bool { return ask("app") == nil })
	if err := ask("other"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a pod asked for another pod's configuration: %v", err)
	}
}

func address(pod string) string {
	return map[string]string{"app": "10.9.0.1", "other": "10.9.0.2"}[pod]
}
