package webhook

import (
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
)

// said collects the warnings that kubectl would print.
type said struct {
	mu  sync.Mutex
	all []string
}

func (s *said) HandleWarningHeader(_ int, _, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, text)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.all, "\n")
}

func entry(name, host string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"hosts": []any{host}, "location": "MESH_EXTERNAL", "resolution": "DNS",
			"ports": []any{map[string]any{"number": int64(443), "name": "tls", "protocol": "TLS"}},
		},
	}}
}

// TestRealAPIServer refuses a ServiceEntry that the CRD's own schema lets through.
func TestRealAPIServer(t *testing.T) {
	config := rest.CopyConfig(apiserver.Start(t))
	warned := &said{}
	config.WarningHandler = warned
	register(t, config)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	entries := client.Resource(schema.GroupVersionResource{Group: decode.IstioGroup, Version: "v1", Resource: "serviceentries"}).Namespace("default")
	const words = `denied the request: ServiceEntry default/bad: spec.hosts[0]: "bad_host": it holds '_'`
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := entries.Create(ctx, entry("bad", "bad_host"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return false, nil
		}
		if !strings.Contains(err.Error(), words) {
			return false, fmt.Errorf("refused with: %w", err)
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := entries.Create(t.Context(), entry("good", "external.com"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(warned.String(), "spec.hosts[0]: nobody uses it") {
		t.Errorf("warned: %s", warned)
	}
	if err := unstructured.SetNestedStringSlice(made.Object, []string{"bad_host"}, "spec", "hosts"); err != nil {
		t.Fatal(err)
	}
	if _, err := entries.Update(t.Context(), made, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "bad_host") {
		t.Errorf("an update: %v", err)
	}
	if err := entries.Delete(t.Context(), "good", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// register makes the API server ask the handler about Istio's networking kinds.
func register(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(Handler(Config{Log: slog.New(slog.DiscardHandler), Check: everAlone}))
	t.Cleanup(server.Close)
	url, none, ignore := server.URL+"/validate", admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "sallyport-validator-istio-system"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validator.sallyport.io", SideEffects: &none, FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{decode.IstioGroup}, APIVersions: []string{"*"}, Resources: []string{"*"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
