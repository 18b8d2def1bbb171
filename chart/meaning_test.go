package chart

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/sidecar/inject"
)

// What the chart writes for the controller is what the controller reads.
func TestSettingsAreUnderstood(t *testing.T) {
	for name, values := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			all := objects(t, template(t, "--values", values))
			settings := configMap(t, all, "sallyport-injector", "config")
			s, err := inject.ParseSettings([]byte(settings))
			if err != nil {
				t.Fatalf("%v\n%s", err, settings)
			}
			if want := "sallyport." + namespace + ".svc:15012"; s.DiscoveryAddress != want {
				t.Errorf("discoveryAddress %q, want %q", s.DiscoveryAddress, want)
			}
			if !slices.Contains(s.NeverNamespaces, namespace) || !slices.Contains(s.NeverNamespaces, "kube-system") {
				t.Errorf("neverNamespaces %v: the cluster's and the release's are missing", s.NeverNamespaces)
			}
			m, err := mesh.Parse([]byte(configMap(t, all, "istio", "mesh")))
			if err != nil {
				t.Fatal(err)
			}
			if m.RootNamespace != namespace || m.TrustDomain != s.TrustDomain {
				t.Errorf("root namespace %q, trust domain %q: want %q and the sidecars' %q", m.RootNamespace, m.TrustDomain, namespace, s.TrustDomain)
			}
		})
	}
}

func configMap(t *testing.T, all []*unstructured.Unstructured, name, key string) string {
	t.Helper()
	text, ok, err := unstructured.NestedString(find(t, all, "ConfigMap", name).Object, "data", key)
	if err != nil || !ok {
		t.Fatalf("ConfigMap %s has no text %s: %v", name, key, err)
	}
	return text
}

// No webhook asks about pods that the cluster, or the controller itself, needs in order to start.
func TestInjectorCannotLockTheCluster(t *testing.T) {
	for name, values := range valueSets(t) {
		if name == "bare" { // it has no injector
			continue
		}
		t.Run(name, func(t *testing.T) {
			config := find(t, objects(t, template(t, "--values", values)), "MutatingWebhookConfiguration", "sallyport-injector-"+namespace)
			hooks, _, err := unstructured.NestedSlice(config.Object, "webhooks")
			if err != nil || len(hooks) == 0 {
				t.Fatalf("%d webhooks, %v", len(hooks), err)
			}
			for _, hook := range hooks {
				hook := hook.(map[string]any)
				expressions, _, err := unstructured.NestedSlice(hook, "namespaceSelector", "matchExpressions")
				if err != nil {
					t.Fatal(err)
				}
				var excluded []string
				for _, e := range expressions {
					e := e.(map[string]any)
					if e["key"] == "kubernetes.io/metadata.name" && e["operator"] == "NotIn" {
						names, _, _ := unstructured.NestedStringSlice(e, "values")
						excluded = append(excluded, names...)
					}
				}
				for _, must := range []string{namespace, "kube-system", "kube-public", "kube-node-lease"} {
					if !slices.Contains(excluded, must) {
						t.Errorf("%s asks about pods of %s", hook["name"], must)
					}
				}
			}
		})
	}
}
