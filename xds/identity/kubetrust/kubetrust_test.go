package kubetrust

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func configMap(namespace string, ours bool, data map[string]string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ConfigMapName}, Data: data}
	if ours {
		m.Labels = map[string]string{Label: LabelValue}
	}
	return m
}

// writes are the changing calls that a client saw, since the last time.
func writes(c *fake.Clientset) []string {
	var all []string
	for _, a := range c.Actions() {
		if !slices.Contains([]string{"get", "list"}, a.GetVerb()) {
			all = append(all, a.GetVerb()+" "+a.GetNamespace())
		}
	}
	c.ClearActions()
	return all
}

func TestConfigMaps(t *testing.T) {
	old := map[string]string{ConfigMapKey: "old"}
	right := map[string]string{ConfigMapKey: "new"}
	for _, c := range []struct {
		name       string
		have       []runtime.Object
		keepOthers bool
		want       Changes
		writes     []string
	}{
		{"nothing there", nil, false, Changes{Created: 2}, []string{"create a", "create b"}},
		{"another's of the same name elsewhere stays", []runtime.Object{configMap("x", false, old)}, false, Changes{Created: 2}, []string{"create a", "create b"}},
		{"all is right", []runtime.Object{configMap("a", true, right), configMap("b", true, right)}, false, Changes{}, nil},
		{"one is old", []runtime.Object{configMap("a", true, right), configMap("b", true, old)}, false, Changes{Updated: 1}, []string{"update b"}},
		{"one lost its text", []runtime.Object{configMap("a", true, nil), configMap("b", true, right)}, false, Changes{Updated: 1}, []string{"update a"}},
		{"Istio's are taken over", []runtime.Object{configMap("a", false, old), configMap("b", false, right)}, false, Changes{Updated: 2}, []string{"update a", "update b"}},
		{"Istio's are kept", []runtime.Object{configMap("a", false, old), configMap("b", true, old)}, true, Changes{Updated: 1, Kept: 1}, []string{"update b"}},
		{
			"a namespace left the mesh", []runtime.Object{configMap("a", true, right), configMap("b", true, right), configMap("gone", true, right)}, false,
			Changes{Deleted: 1}, []string{"delete gone"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewClientset(c.have...)
			m := ConfigMaps{Client: client.CoreV1(), KeepOthers: c.keepOthers, Log: slog.New(slog.DiscardHandler)}
			got, err := m.Distribute(t.Context(), []string{"b", "a", "a"}, []byte("new"))
			if err != nil || got != c.want {
				t.Errorf("Distribute = %+v, %v; want %+v", got, err, c.want)
			}
			if w := writes(client); !slices.Equal(w, c.writes) {
				t.Errorf("wrote %q, want %q", w, c.writes)
			}
			again, err := m.Distribute(t.Context(), []string{"a", "b"}, []byte("new"))
			if w := writes(client); err != nil || len(w) != 0 || again.Created+again.Updated+again.Deleted != 0 {
				t.Errorf("a second time: %+v, %v, wrote %q", again, err, w)
			}
		})
	}
}

// Other keys and labels of a ConfigMap stay; an empty bundle is nobody's wish.
func TestConfigMapsKeepTheRest(t *testing.T) {
	have := configMap("a", false, map[string]string{ConfigMapKey: "old", "theirs": "x"})
	have.Labels = map[string]string{"istio.io/config": "true"}
	client := fake.NewClientset(have)
	m := ConfigMaps{Client: client.CoreV1()}
	if _, err := m.Distribute(t.Context(), []string{"a"}, []byte("new")); err != nil {
		t.Fatal(err)
	}
	got, err := client.CoreV1().ConfigMaps("a").Get(t.Context(), ConfigMapName, metav1.GetOptions{})
	if err != nil || got.Data["theirs"] != "x" || got.Data[ConfigMapKey] != "new" || len(got.Labels) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := m.Distribute(t.Context(), []string{"a"}, nil); err == nil {
		t.Error("an empty bundle was distributed")
	}
}

// One namespace's trouble is not the others'.
func TestConfigMapsGoOn(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "configmaps", func(a kubetesting.Action) (bool, runtime.Object, error) {
		resource := schema.GroupResource{Resource: "configmaps"}
		switch ns := a.GetNamespace(); {
		case ns == "terminating":
			err := apierrors.NewForbidden(resource, ConfigMapName, errors.New("it is being terminated"))
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
			return true, nil, err
		case ns == "gone":
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, ns)
		case strings.HasPrefix(ns, "forbidden"):
			return true, nil, apierrors.NewForbidden(resource, ConfigMapName, errors.New("RBAC"))
		}
		return false, nil, nil
	})
	namespaces := []string{"a", "gone", "terminating", "z"}
	for i := range 15 {
		namespaces = append(namespaces, fmt.Sprintf("forbidden-%d", i))
	}
	got, err := (&ConfigMaps{Client: client.CoreV1()}).Distribute(t.Context(), namespaces, []byte("new"))
	if got != (Changes{Created: 2}) {
		t.Errorf("%+v", got)
	}
	if err == nil || !strings.Contains(err.Error(), "forbidden-0") || !strings.Contains(err.Error(), "and 5 more") || strings.Contains(err.Error(), "gone") {
		t.Errorf("error %v", err)
	}
}

func TestConfigMapsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		m := ConfigMaps{Client: client.CoreV1(), Limit: rate.NewLimiter(10, 1)}
		var namespaces []string
		for i := range 51 {
			namespaces = append(namespaces, fmt.Sprintf("ns-%d", i))
		}
		begun := time.Now()
		if _, err := m.Distribute(t.Context(), namespaces, []byte("new")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took.Round(time.Second) != 5*time.Second {
			t.Errorf("51 writes took %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.Distribute(ctx, namespaces, []byte("newer")); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestWebhooks(t *testing.T) {
	client := fake.NewClientset(
		&admission.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "inject"},
			Webhooks: []admission.MutatingWebhook{
				{Name: "a", ClientConfig: admission.WebhookClientConfig{CABundle: []byte("old")}}, {Name: "b"},
			},
		},
		&admission.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "validate"},
			Webhooks:   []admission.ValidatingWebhook{{Name: "a", ClientConfig: admission.WebhookClientConfig{CABundle: []byte("new")}}},
		},
		&admission.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "others"}, Webhooks: []admission.ValidatingWebhook{{Name: "a"}},
		},
	)
	w := Webhooks{Client: client.AdmissionregistrationV1(), Mutating: []string{"inject", "missing"}, Validating: []string{"validate", "missing"}}
	if n, err := w.Distribute(t.Context(), []byte("new")); err != nil || n != 1 {
		t.Errorf("Distribute = %d, %v", n, err)
	}
	got, err := w.Client.MutatingWebhookConfigurations().Get(t.Context(), "inject", metav1.GetOptions{})
	if err != nil || string(got.Webhooks[0].ClientConfig.CABundle) != "new" || string(got.Webhooks[1].ClientConfig.CABundle) != "new" {
		t.Errorf("%+v, %v", got, err)
	}
	if n, err := w.Distribute(t.Context(), []byte("new")); err != nil || n != 0 {
		t.Errorf("a second time: %d, %v", n, err)
	}
	if n, err := w.Distribute(t.Context(), []byte("newer")); err != nil || n != 2 {
		t.Errorf("another bundle: %d, %v", n, err)
	}
	client.PrependReactor("update", "*", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(schema.GroupResource{}, "inject", errors.New("changed"))
	})
	if _, err := w.Distribute(t.Context(), []byte("newest")); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "MutatingWebhookConfiguration inject") {
		t.Errorf("a conflict: %v", err)
	}
}

// TestValidatingPath: where the API server asks is set wherever the control plane is named, and only of those that validate.
func TestValidatingPath(t *testing.T) {
	at := "https://127.0.0.1:9/validate"
	client := fake.NewClientset(
		&admission.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "inject"},
			Webhooks:   []admission.MutatingWebhook{{Name: "a", ClientConfig: admission.WebhookClientConfig{Service: &admission.ServiceReference{Name: "s"}}}},
		},
		&admission.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "validate"},
			Webhooks: []admission.ValidatingWebhook{
				{Name: "a", ClientConfig: admission.WebhookClientConfig{Service: &admission.ServiceReference{Name: "s"}}},
				{Name: "b", ClientConfig: admission.WebhookClientConfig{URL: &at}},
			},
		},
	)
	w := Webhooks{Client: client.AdmissionregistrationV1(), Mutating: []string{"inject"}, Validating: []string{"validate"}, ValidatingPath: "/validate/key"}
	for _, want := range []int{2, 0} {
		if n, err := w.Distribute(t.Context(), []byte("new")); err != nil || n != want {
			t.Errorf("Distribute = %d, %v, want %d", n, err, want)
		}
	}
	got, err := w.Client.ValidatingWebhookConfigurations().Get(t.Context(), "validate", metav1.GetOptions{})
	if err != nil || *got.Webhooks[0].ClientConfig.Service.Path != "/validate/key" || *got.Webhooks[1].ClientConfig.URL != "https://127.0.0.1:9/validate/key" {
		t.Errorf("%+v, %v", got, err)
	}
	if m, err := w.Client.MutatingWebhookConfigurations().Get(t.Context(), "inject", metav1.GetOptions{}); err != nil || m.Webhooks[0].ClientConfig.Service.Path != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

// Keep acts at the start, when woken, at intervals, and again after an error.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake := make(chan struct{}, 1)
		var calls []time.Duration
		var fail atomic.Bool
		begun := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			Keep(ctx, time.Minute, wake, slog.New(slog.DiscardHandler), func(context.Context) error {
				calls = append(calls, time.Since(begun))
				if fail.Load() {
					return errors.New("the API is away")
				}
				return nil
			})
		}()
		synctest.Wait()
		fail.Store(true)
		wake <- struct{}{}
		time.Sleep(3500 * time.Millisecond) // 0, then 1 and 3 seconds
		fail.Store(false)
		time.Sleep(70 * time.Second) // 7 seconds, a minute later
		synctest.Wait()
		cancel()
		<-done
		want := []time.Duration{0, 0, time.Second, 3 * time.Second, 7 * time.Second, 67 * time.Second}
		if !slices.Equal(calls, want) {
			t.Errorf("called at %v, want %v", calls, want)
		}
	})
}
