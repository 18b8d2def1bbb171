package inject_test

import (
	"context"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/sidecar/inject"
)

// cluster is a real API server that asks the handler about pods.
type cluster struct {
	*kubernetes.Clientset
	settings inject.Settings
	warnings *warnings
}

// warnings are what kubectl would print.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.all = nil }()
	return strings.Join(w.all, "\n")
}

// NamespaceLabels asks the API server itself.
func (c *cluster) NamespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	ns, err := c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return ns.Labels, nil
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	config := rest.CopyConfig(apiserver.Start(t))
	c := &cluster{warnings: &warnings{}}
	config.WarningHandler = c.warnings
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c.Clientset = client
	for name, labels := range map[string]map[string]string{"shop": {"istio-injection": "enabled"}, "plain": nil} {
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, account := range []string{"default", "web"} {
			_, err := client.CoreV1().ServiceAccounts(name).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
	}
	settings := inject.Default()
	settings.Image = "registry.example/sallyport-proxy:v1"
	c.settings = settings
	c.register(t, inject.Handler(inject.HandlerConfig{
		Log: slog.New(slog.DiscardHandler), Settings: func() inject.Settings { return settings }, Namespaces: c,
	}))
	return c
}

// register makes the API server ask h about every pod, and waits until it does.
func (c *cluster) register(t *testing.T, h http.Handler) {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	url, none, fail, again := server.URL+"/inject", admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail, admissionregistrationv1.IfNeededReinvocationPolicy
	_, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "sallyport-injector-istio-system"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "injector.sallyport.io", SideEffects: &none, FailurePolicy: &fail, ReinvocationPolicy: &again, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: "shop"}, Spec: corev1.PodSpec{
		ServiceAccountName: "default", Containers: []corev1.Container{{Name: "a", Image: "a"}},
	}}
	var last error
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		got, err := c.CoreV1().Pods("shop").Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		last = err
		return err == nil && len(got.Spec.InitContainers) == 2, nil
	})
	if err != nil {
		t.Fatalf("pods are not injected: %v; the last answer was %v", err, last)
	}
	c.warnings.take()
}

func (c *cluster) create(t *testing.T, namespace, text string) (*corev1.Pod, error) {
	t.Helper()
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	pod.Spec.ServiceAccountName = "default" // what a cluster's own admission writes first
	return c.CoreV1().Pods(namespace).Create(t.Context(), &pod, metav1.CreateOptions{})
}

// TestRealAPIServer: what the handler makes of a pod passes the API server's own validation, and what it refuses is
// refused in its words.
func TestRealAPIServer(t *testing.T) {
	c := startCluster(t)
	names := func(containers []corev1.Container) (out []string) {
		for _, c := range containers {
			out = append(out, c.Name)
		}
		return out
	}
	t.Run("classic", func(t *testing.T) {
		pod, err := c.create(t, "shop", `
metadata: {name: classic, annotations: {sidecar.istio.io/nativeSidecar: "false", proxy.istio.io/config: "holdApplicationUntilProxyStarts: true"}}
spec:
  containers: [{name: web, image: web, readinessProbe: {httpGet: {path: /ready, port: 8080}}}]`)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(pod.Spec.Containers); !slices.Equal(got, []string{"istio-proxy", "web"}) {
			t.Errorf("containers %v", got)
		}
		if got := names(pod.Spec.InitContainers); !slices.Equal(got, []string{"istio-init"}) {
			t.Errorf("init containers %v", got)
		}
		if get := pod.Spec.Containers[1].ReadinessProbe.HTTPGet; get.Path != "/app-health/web/readyz" || get.Port.IntValue() != inject.StatusPort {
			t.Errorf("probe %v", get)
		}
		if said := c.warnings.take(); said != "" {
			t.Errorf("warned: %s", said)
		}
		c.isGenuine(t, pod)
	})
	t.Run("native", func(t *testing.T) {
		pod, err := c.create(t, "shop", `
metadata: {name: native}
spec:
  initContainers: [{name: migrate, image: migrate}]
  containers: [{name: web, image: web}]`)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(pod.Spec.InitContainers); !slices.Equal(got, []string{"istio-init", "istio-proxy", "migrate"}) {
			t.Errorf("init containers %v", got)
		}
		c.isGenuine(t, pod)
	})
	t.Run("within the pod's resources", func(t *testing.T) {
		pod, err := c.create(t, "shop", `
metadata: {name: within}
spec:
  resources: {limits: {cpu: "1", memory: 512Mi}}
  containers: [{name: web, image: web, resources: {requests: {cpu: 50m}}}]`)
		if err != nil {
			t.Fatal(err)
		}
		c.isGenuine(t, pod)
		c.warnings.take()
	})
	t.Run("refused", func(t *testing.T) {
		_, err := c.create(t, "shop", `
metadata: {name: refused, annotations: {sidecar.istio.io/proxyCPU: lots}}
spec: {containers: [{name: web, image: web}]}`)
		const want = `denied the request: pod shop/refused: annotation "sidecar.istio.io/proxyCPU": "lots": is no quantity; write one, as in "100m"`
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("warned", func(t *testing.T) {
		if _, err := c.create(t, "shop", `
metadata: {name: warned}
spec: {containers: [{name: web, image: web, securityContext: {runAsUser: 1337}}]}`); err != nil {
			t.Fatal(err)
		}
		if said := c.warnings.take(); !strings.Contains(said, `container "web" runs as user 1337`) {
			t.Errorf("warned: %s", said)
		}
	})
	t.Run("left alone", func(t *testing.T) {
		pod, err := c.create(t, "plain", `
metadata: {name: plain}
spec: {containers: [{name: web, image: web}]}`)
		if err != nil || len(pod.Spec.Containers) != 1 || len(pod.Spec.InitContainers) != 0 {
			t.Errorf("%v %v", pod, err)
		}
	})
	t.Run("goldens", func(t *testing.T) { c.createGoldens(t) })
}

// nobody may change anything.
type nobody struct{}

func (nobody) Permits(string, string) bool { return false }
func (nobody) Images(string) []string      { return nil }

// isGenuine: a pod as the API server keeps it is taken for one of the injector's own.
func (c *cluster) isGenuine(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	s := c.settings
	s.Permissions = nobody{}
	again, err := inject.Inject(pod, inject.Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}, s)
	if err != nil || again.Pod != nil {
		t.Errorf("the pod, as it is kept: %+v %v", again, err)
	}
}

// createGoldens creates the pods of the golden files as they are after injection.
func (c *cluster) createGoldens(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range archives {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if f.Name != "want" || !strings.Contains(string(f.Data), "\nspec:\n") {
				continue
			}
			var pod corev1.Pod
			if err := yaml.Unmarshal(f.Data, &pod); err != nil {
				t.Fatal(err)
			}
			pod.Name, pod.GenerateName, pod.Namespace = "golden-"+strings.TrimSuffix(filepath.Base(file), ".txtar"), "", ""
			pod.Spec.ServiceAccountName = "default"
			if _, err := c.CoreV1().Pods("plain").Create(t.Context(), &pod, metav1.CreateOptions{}); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
