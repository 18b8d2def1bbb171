package kubernetes

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/kubeca"
	"github.com/sallyport/sallyport/xds/identity/kubetrust"
	"github.com/sallyport/sallyport/xds/identity/servertls"
)

// testTrust: the bundle comes to every namespace that is there, and goes from those that left the mesh.
func testTrust(t *testing.T, c cluster) {
	for _, ns := range []string{"trust-a", "trust-b", "trust-going"} {
		c.namespace(t, ns)
	}
	if err := c.CoreV1().Namespaces().Delete(t.Context(), "trust-going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err) // nobody finishes it here: it stays terminating
	}
	istios := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: kubetrust.ConfigMapName, Labels: map[string]string{"istio.io/config": "true"}}}
	if _, err := c.CoreV1().ConfigMaps("trust-b").Create(t.Context(), istios, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{kubetrust.Label: kubetrust.LabelValue}}}
	if _, err := c.CoreV1().ConfigMaps("trust-a").Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	m := kubetrust.ConfigMaps{Client: c.CoreV1(), Log: logTo(t)}
	for _, pass := range []struct {
		namespaces []string
		bundle     string
		want       kubetrust.Changes
	}{
		{[]string{"trust-a", "trust-b", "trust-going", "trust-never"}, "one", kubetrust.Changes{Created: 1, Updated: 1}},
		{[]string{"trust-a", "trust-b", "trust-going", "trust-never"}, "one", kubetrust.Changes{}},
		{[]string{"trust-a", "trust-b"}, "two", kubetrust.Changes{Updated: 2}},
		{[]string{"trust-a"}, "two", kubetrust.Changes{Deleted: 1}},
	} {
		got, err := m.Distribute(t.Context(), pass.namespaces, []byte(pass.bundle))
		if err != nil || got != pass.want {
			t.Errorf("%v: %+v, %v; want %+v", pass.namespaces, got, err, pass.want)
		}
	}
	if _, err := c.CoreV1().ConfigMaps("trust-a").Get(t.Context(), "other", metav1.GetOptions{}); err != nil {
		t.Errorf("a ConfigMap of another name: %v", err)
	}
}

// testWebhooks: the API server calls a webhook whose certificate the mesh CA signed, through each step of a rotation.
func testWebhooks(t *testing.T, c cluster) {
	c.namespace(t, "webhooks")
	store := kubeca.NewStore(c.CoreV1(), "webhooks")
	authority, err := ca.OpenContext(t.Context(), ca.Options{Store: store, Log: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int32
	url := serveWebhook(t, authority, &calls)
	fail, none, timeout := admission.Fail, admission.SideEffectClassNone, int32(5)
	_, err = c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admission.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "sallyport-validator-webhooks"},
		Webhooks: []admission.ValidatingWebhook{{
			Name: "validate.sallyport.io", ClientConfig: admission.WebhookClientConfig{URL: &url},
			FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "webhooks"}},
			Rules: []admission.RuleWithOperations{{
				Operations: []admission.OperationType{admission.Create},
				Rule:       admission.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hooks := kubetrust.Webhooks{Client: c.AdmissionregistrationV1(), Validating: []string{"sallyport-validator-webhooks"}}
	made := 0
	create := func() error {
		made++
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "asked-" + strconv.Itoa(made)}}
		_, err := c.CoreV1().ConfigMaps("webhooks").Create(t.Context(), m, metav1.CreateOptions{})
		return err
	}
	// The API server hears of the configuration, and of each change of it, a moment later.
	soon := func(step string) {
		t.Helper()
		deadline := time.Now().Add(2 * time.Minute)
		before := calls.Load()
		for {
			err := create()
			if err == nil && calls.Load() > before {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the API server does not call the webhook: %v", step, err)
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	distribute := func(want int) {
		t.Helper()
		if n, err := hooks.Distribute(t.Context(), authority.BundlePEM()); err != nil || n != want {
			t.Fatalf("Distribute = %d, %v; want %d", n, err, want)
		}
	}
	distribute(1)
	soon("at the start")
	for _, step := range []ca.Step{ca.StepTrust, ca.StepSign, ca.StepDrop} {
		if _, err := (ca.Rotation{Store: store}).Advance(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if _, err := authority.ReloadContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The server has its new certificate already, the API server the old bundle.
		if err := create(); err != nil {
			t.Errorf("%s, with the bundle of before: %v", step, err)
		}
		distribute(1)
		distribute(0)
		c.heard(t, string(step)) // else the next step may come before this one's bundle
		for range 10 {
			if err := create(); err != nil {
				t.Errorf("%s: %v", step, err)
			}
		}
	}
	if calls.Load() < 30 {
		t.Errorf("%d calls", calls.Load())
	}
}

// heard waits until the API server has heard of all webhooks' configurations that were written so far. It hears of them in their order: this is when it calls one that is written now.
func (c cluster) heard(t *testing.T, name string) {
	t.Helper()
	nobody, fail, none := "https://127.0.0.1:1/", admission.Fail, admission.SideEffectClassNone
	hooks := c.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := hooks.Create(t.Context(), &admission.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "heard-" + name},
		Webhooks: []admission.ValidatingWebhook{{
			Name: "heard.sallyport.io", ClientConfig: admission.WebhookClientConfig{URL: &nobody}, FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"heard": name}},
			Rules: []admission.RuleWithOperations{{
				Operations: []admission.OperationType{admission.Create},
				Rule:       admission.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	asked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "heard", Labels: map[string]string{"heard": name}}}
	if err := world.Within(t.Context(), 2*time.Minute, func() error {
		_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), asked, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "heard.sallyport.io") {
			return fmt.Errorf("nobody is called: %w", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// serveWebhook allows everything.
func serveWebhook(t *testing.T, authority *ca.CA, calls *atomic.Int32) (url string) {
	t.Helper()
	hosts := append(servertls.ServiceHosts("sallyport", "webhooks"), "127.0.0.1")
	config, err := servertls.New(servertls.Options{CA: authority, Hosts: hosts, Webhook: true})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{TLSConfig: config, ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		w.Header().Set("Connection", "close") // so that each call verifies the certificate anew
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return "https://" + listener.Addr().String() + "/validate"
}
