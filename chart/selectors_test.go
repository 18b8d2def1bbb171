package chart

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/sidecar/inject"
)

type labels = map[string]string

// asksAboutPods: which webhook the API server asks about which pod; at most one. Whatever package inject would inject is
// asked about. A listener of ours answers in the controller's place.
func (c *cluster) asksAboutPods(t *testing.T) {
	rendered := objects(t, template(t, "--set", "injector.excludedNamespaces={build}"))
	asked := c.answerWebhooks(t, find(t, rendered, "MutatingWebhookConfiguration", injector))
	settings, err := inject.ParseSettings([]byte(configMap(t, rendered, "sallyport-injector", "config")))
	if err != nil {
		t.Fatal(err)
	}

	namespaces := map[string]labels{
		"plain": nil, "enabled": {"istio-injection": "enabled"}, "disabled": {"istio-injection": "disabled"},
		"revision": {"istio.io/rev": "default"}, "another": {"istio.io/rev": "another"},
		"both": {"istio-injection": "enabled", "istio.io/rev": "default"}, "build": {"istio-injection": "enabled"},
	}
	for name, l := range namespaces {
		c.addNamespace(t, name, l)
	}
	for _, name := range []string{namespace, "kube-system"} {
		namespaces[name] = labels{"istio-injection": "enabled"}
		patch := []byte(`{"metadata": {"labels": {"istio-injection": "enabled"}}}`)
		if _, err := c.client.CoreV1().Namespaces().Patch(t.Context(), name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	yes, no := labels{"sidecar.istio.io/inject": "true"}, labels{"sidecar.istio.io/inject": "false"}
	rev, other := labels{"istio.io/rev": "default"}, labels{"istio.io/rev": "another"}

	for _, test := range []struct {
		namespace string
		pod       labels
		hook      string // "" for none
	}{
		{"plain", nil, ""}, {"plain", no, ""}, {"plain", yes, "object"}, {"plain", rev, "rev.object"}, {"plain", other, ""},
		{"enabled", nil, "namespace"}, {"enabled", yes, "namespace"}, {"enabled", no, ""},
		{"disabled", nil, ""}, {"disabled", yes, ""}, {"disabled", rev, ""},
		{"revision", nil, "rev.namespace"}, {"revision", yes, "rev.namespace"}, {"revision", no, ""},
		{"another", nil, ""}, {"another", yes, ""},
		{"both", nil, "namespace"},
		{"build", nil, ""}, {"build", yes, ""},
		{"kube-system", nil, ""}, {"kube-system", yes, ""}, {namespace, nil, ""}, {namespace, yes, ""},
	} {
		pod := pod(test.namespace, test.pod)
		_, err := c.createPod(t, pod)
		if err != nil {
			t.Errorf("%s, %v: %v", test.namespace, test.pod, err)
		}
		got := asked.take()
		var want []string
		if test.hook != "" {
			want = append(want, test.hook)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s, %v: asked %v, want %v", test.namespace, test.pod, got, want)
		}
		result, err := inject.Inject(pod, inject.Namespace{Name: test.namespace, Labels: namespaces[test.namespace]}, settings)
		if err != nil {
			t.Errorf("%s, %v: %v", test.namespace, test.pod, err)
		}
		if injected := result.Pod != nil; injected != (test.hook != "") {
			t.Errorf("%s, %v: the injector would inject: %t (%s), but is asked: %t", test.namespace, test.pod, injected, result.Reason, test.hook != "")
		}
	}
}

// hooksAsked are the webhooks that were asked, without ".sidecar-injector.istio.io".
type hooksAsked struct {
	mu    sync.Mutex
	names []string
}

func (h *hooksAsked) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := h.names
	h.names = nil
	return names
}

func (h *hooksAsked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.names = append(h.names, strings.TrimSuffix(path.Base(r.URL.Path), ".sidecar-injector.istio.io"))
	h.mu.Unlock()
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// answerWebhooks registers the webhooks until the test ends, with a listener that allows everything instead of the
// controller's Service, and waits until the API server asks it.
func (c *cluster) answerWebhooks(t *testing.T, config *unstructured.Unstructured) *hooksAsked {
	t.Helper()
	asked := &hooksAsked{}
	server := httptest.NewTLSServer(asked)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	var m admissionregistrationv1.MutatingWebhookConfiguration
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(config.Object, &m); err != nil {
		t.Fatal(err)
	}
	for i, hook := range m.Webhooks {
		url := server.URL + "/" + hook.Name
		m.Webhooks[i].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca}
	}
	api := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := api.Create(t.Context(), &m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), m.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err := world.Poll(ctx, 50*time.Millisecond, func() error {
		if _, err := c.createPod(t, pod("shop", labels{"sidecar.istio.io/inject": "true"})); err != nil {
			return err
		}
		if len(asked.take()) == 0 {
			return errors.New("the API server does not ask the webhooks")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return asked
}

// createPod asks for a pod without making it.
func (c *cluster) createPod(t *testing.T, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	return c.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func pod(namespace string, l labels) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace, Labels: l},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
}
