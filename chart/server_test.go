package chart

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
)

// cluster is a real API server. Nothing runs in it: there are neither nodes nor controllers.
type cluster struct {
	*apiserver.Server
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	kinds    *restmapper.DeferredDiscoveryRESTMapper
	warnings warnings
	dir      string // for the packaged chart
	pack     string // the packaged chart
}

// warnings are what the server says beside its answers.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	w.said = nil
	return said
}

// newCluster has the namespaces that the sets of values name, and says where workloads are not as restricted as pods
// can be (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
func newCluster(t *testing.T) *cluster {
	t.Helper()
	findHelm(t)
	c := &cluster{Server: apiserver.StartWith(t, apiserver.Options{WithoutCRDs: true}), dir: t.TempDir()}
	config := rest.CopyConfig(c.Config)
	config.WarningHandler = &c.warnings
	var err error
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	c.kinds = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	for _, name := range []string{namespace, "shop", "team-a"} {
		c.addNamespace(t, name, map[string]string{"pod-security.kubernetes.io/warn": "restricted"})
	}
	return c
}

func (c *cluster) addNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// helm runs helm as the cluster's admin.
func (c *cluster) helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"--kubeconfig", c.Kubeconfig, "--namespace", namespace, "--qps", "1000", "--burst-limit", "1000"}, args...)...)
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, out)
	}
	return out
}

// resource is where objects of that kind are.
func (c *cluster) resource(t *testing.T, o *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	gvk := o.GroupVersionKind()
	mapping, err := c.kinds.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatal(err)
	}
	if o.GetNamespace() == "" {
		return c.dynamic.Resource(mapping.Resource)
	}
	return c.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace())
}

// TestOnAServer is the chart's life, in order.
func TestOnAServer(t *testing.T) {
	c := newCluster(t)
	t.Run("takes every object", c.takesEveryObject)
	t.Run("asks about pods that are to be injected", c.asksAboutPods)
	t.Run("installs with CRDs", c.installs)
	t.Run("accounts may do what they must", c.accountsMay)
	t.Run("accounts may do nothing else", c.accountsMayNot)
	t.Run("the controller can do its work", c.worksAsItself)
	t.Run("upgrades keep what the controller wrote", c.upgradeKeeps)
	t.Run("removal leaves no webhook and keeps the CA", c.removal)
}

// onlyOf is true of warnings that name one container and no other.
func onlyOf(container string) func(string) bool {
	return func(said string) bool {
		rest := strings.ReplaceAll(said, container, "")
		return rest != said && !strings.Contains(rest, "container") && !strings.Contains(rest, "pod ")
	}
}

// takesEveryObject: each object of each set of values is valid, without fields that the API does not know, and as
// restricted as pods can be.
func (c *cluster) takesEveryObject(t *testing.T) {
	sets := valueSets(t)
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		for _, o := range objects(t, template(t, "--values", sets[name])) {
			switch o.GroupVersionKind().Group {
			case "monitoring.coreos.com": // its CRDs are not ours
				continue
			case "networking.istio.io": // its CRDs come with the packaged chart, which is installed below
				continue
			}
			_, err := c.resource(t, o).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			if err != nil {
				t.Errorf("%s: %s %s: %v", name, o.GetKind(), o.GetName(), err)
			}
			// The node guard is in the node's network, and the proxy of its pods enters theirs, which is what they are for.
			// Who ends the egress gateway's connections has the right to that, as nobody else in its pod.
			said := c.warnings.take()
			if o.GetName() == "istio-egressgateway" {
				said = slices.DeleteFunc(said, onlyOf(`container "ender"`))
			}
			if len(said) > 0 && !slices.Contains([]string{"sallyport-node", "sallyport-ambient"}, o.GetName()) {
				t.Errorf("%s: %s %s: %q", name, o.GetKind(), o.GetName(), said)
			}
		}
	}
}
