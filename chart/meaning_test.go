package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sallyport/sallyport/config/fields"
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

// TestSettingsAreLetThrough: every setting of ours that the controller reads may be given to the chart, and its schema knows no
// other.
func TestSettingsAreLetThrough(t *testing.T) {
	content, err := os.ReadFile("values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema node
	if err := json.Unmarshal(content, &schema); err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, f := range fields.Sallyport {
		read[f.Path] = true
	}
	known := map[string]bool{}
	schema.Properties["meshConfig"].Properties["sallyport"].leaves("", known)
	for path := range read {
		if !known[path] {
			t.Errorf("the controller reads sallyport.%s, and values.schema.json refuses it", path)
		}
	}
	for path := range known {
		if !read[path] {
			t.Errorf("values.schema.json has sallyport.%s, which no controller reads", path)
		}
	}
	modes := schema.Properties["meshConfig"].Properties["outboundTrafficPolicy"].Properties["mode"].Enum
	for _, mode := range meshconfig.MeshConfig_OutboundTrafficPolicy_Mode_name {
		_, err := mesh.Parse([]byte("outboundTrafficPolicy: {mode: " + mode + "}"))
		if takes := slices.Contains(modes, any(mode)); takes != (err == nil) {
			t.Errorf("outboundTrafficPolicy.mode %s: values.schema.json takes it %v, and the controller says %v", mode, takes, err)
		}
	}
}

// node is what of a schema names properties.
type node struct {
	Properties map[string]node
	Enum       []any
}

// leaves adds the paths of what has no properties of its own.
func (n node) leaves(path string, found map[string]bool) {
	if len(n.Properties) == 0 {
		found[strings.TrimPrefix(path, ".")] = true
	}
	for name, below := range n.Properties {
		below.leaves(path+"."+name, found)
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

// TestGatewaysSayTheirTopology: what the annotation of an ingress gateway's pods says of Istio's ProxyConfig is what their agents are told.
func TestGatewaysSayTheirTopology(t *testing.T) {
	const said = "{concurrency: 7, gatewayTopology: {numTrustedProxies: 2, proxyProtocol: {}}}"
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte("ingressGateway: {enabled: true, podAnnotations: {proxy.istio.io/config: '"+said+"'}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pod, _, err := unstructured.NestedMap(find(t, objects(t, template(t, "--values", path)), "Deployment", "istio-ingressgateway").Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	var of corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pod, &of); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(of.Spec.Containers[0].Env, corev1.EnvVar{Name: mesh.ProxyConfigVariable, Value: `{"gatewayTopology":{"numTrustedProxies":2,"proxyProtocol":{}}}`}) || of.Annotations[mesh.ProxyConfigAnnotation] != said {
		t.Errorf("the agent is told %+v, and the pod says %v", of.Spec.Containers[0].Env, of.Annotations)
	}
}

// TestClassDefaultsAreRead: the controller looks for defaults of classes where it has been given the right to.
func TestClassDefaultsAreRead(t *testing.T) {
	for namespaces, want := range map[string]bool{"{" + namespace + "}": true, "{shop," + namespace + "}": true, "{shop}": false} {
		all := template(t, "--set", "gatewayAPI.enabled=true,gatewayAPI.parametersNamespaces="+namespaces)
		if got := strings.Contains(all, "- --gateway-class-defaults\n"); got != want {
			t.Errorf("%s: %v, want %v", namespaces, got, want)
		}
	}
}
