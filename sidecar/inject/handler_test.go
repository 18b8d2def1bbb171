package inject

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/tools/txtar"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// labelsOf are namespaces with their labels.
type labelsOf map[string]map[string]string

func (n labelsOf) NamespaceLabels(_ context.Context, name string) (map[string]string, error) {
	labels, ok := n[name]
	if !ok {
		return nil, errors.New("no such namespace")
	}
	return labels, nil
}

func testHandler(metrics prometheus.Registerer, settings Settings) http.Handler {
	return Handler(HandlerConfig{
		Log: slog.New(slog.DiscardHandler), Settings: func() Settings { return settings }, Metrics: metrics,
		Namespaces: labelsOf{"shop": {"istio-injection": "enabled"}, "plain": nil},
	})
}

func aboutPod(operation admissionv1.Operation, namespace, object string) *admissionv1.AdmissionReview {
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID("u-1"), Operation: operation, Namespace: namespace,
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object:   runtime.RawExtension{Raw: []byte(object)},
		},
	}
}

func send(t *testing.T, h http.Handler, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/inject", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.APIVersion != "admission.k8s.io/v1" || answer.Response == nil || answer.Response.UID != review.Request.UID {
		t.Fatalf("%s", w.Body)
	}
	return answer.Response
}

func TestHandler(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := testHandler(registry, Default())
	const pod = `{"metadata":{"name":"web"},"spec":{"containers":[{"name":"web"}]}}`
	for _, c := range []struct {
		name, namespace, object string
		operation               admissionv1.Operation
		allowed, patched        bool
		message                 string
	}{
		{"injected", "shop", pod, admissionv1.Create, true, true, ""},
		{"stays", "plain", pod, admissionv1.Create, true, false, ""},
		{"an update", "shop", pod, admissionv1.Update, true, false, ""},
		{"refused", "shop", `{"metadata":{"name":"web","annotations":{"sidecar.istio.io/proxyCPU":"lots"}}}`, admissionv1.Create, false, false,
			`pod shop/web: annotation "sidecar.istio.io/proxyCPU": "lots": is no quantity; write one, as in "100m"`},
		{"unknown namespace", "new", pod, admissionv1.Create, false, false, `the labels of namespace "new" are not known`},
		{"no pod", "shop", `{"spec":1}`, admissionv1.Create, false, false, "the pod cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := send(t, h, aboutPod(c.operation, c.namespace, c.object))
			if got.Allowed != c.allowed || (got.Patch != nil) != c.patched || (got.PatchType != nil) != c.patched {
				t.Errorf("%+v", got)
			}
			if !c.allowed && !strings.HasPrefix(got.Result.Message, c.message) {
				t.Errorf("refused with %q, want %q", got.Result.Message, c.message)
			}
		})
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 7 {
		t.Errorf("%v %v", families, err)
	}
}

// TestPatchOfUnknownFields: what a newer API server knows stays where it was.
func TestPatchOfUnknownFields(t *testing.T) {
	const pod = `{"metadata":{"name":"web","newer":{"a":1}},"spec":{"newer":[1],"initContainers":[{"name":"first","newer":1}],
		"volumes":[{"name":"v","newer":{}}],
		"containers":[{"name":"istio-proxy","image":"auto"},{"name":"one","newer":1,"livenessProbe":{"tcpSocket":{"port":1},"newer":1}},{"name":"two","newer":2}]}}`
	for _, native := range []Native{NativeNever, NativeAuto} {
		s := Default()
		s.NativeSidecar, s.HoldApplicationUntilProxyStarts = native, true
		got := send(t, testHandler(nil, s), aboutPod(admissionv1.Create, "shop", pod))
		patched := applyPatch(t, got.Patch, pod)
		var tree struct {
			Metadata struct{ Newer any }
			Spec     struct {
				Newer          any
				Volumes        []map[string]any
				InitContainers []map[string]any
				Containers     []map[string]any
			}
		}
		if err := json.Unmarshal(patched, &tree); err != nil {
			t.Fatal(err)
		}
		var seen []string
		for _, c := range append(tree.Spec.InitContainers, tree.Spec.Containers...) {
			seen = append(seen, fmt.Sprint(c["name"], " ", c["newer"]))
			if probe, ok := c["livenessProbe"].(map[string]any); ok && (probe["newer"] == nil || probe["tcpSocket"] != nil) {
				t.Errorf("probe %v", probe)
			}
		}
		want := []string{"first 1", "istio-init <nil>", "istio-proxy <nil>", "one 1", "two 2"}
		if native == NativeAuto {
			want = []string{"istio-init <nil>", "istio-proxy <nil>", "first 1", "one 1", "two 2"}
		}
		if diff := cmp.Diff(want, seen); diff != "" || tree.Metadata.Newer == nil || tree.Spec.Newer == nil || tree.Spec.Volumes[0]["newer"] == nil {
			t.Errorf("%s\n%s", diff, patched)
		}
	}
}

// TestPatchesOfGoldens: what the patch makes is what Inject made.
func TestPatchesOfGoldens(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range archives {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		for _, f := range archive.Files {
			files[f.Name] = f.Data
		}
		settings, err := ParseSettings(files["config.yaml"])
		if err != nil {
			continue
		}
		original, err := yaml.YAMLToJSON(files["pod.yaml"])
		if err != nil {
			t.Fatal(err)
		}
		var pod, got corev1.Pod
		if err := json.Unmarshal(original, &pod); err != nil {
			t.Fatal(err)
		}
		result, err := Inject(&pod, Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}, settings)
		if err != nil || result.Pod == nil {
			continue
		}
		text, err := Patch(&pod, result.Pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(applyPatch(t, text, string(original)), &got); err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(result.Pod)
		if err != nil {
			t.Fatal(err)
		}
		have, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(have)); diff != "" {
			t.Errorf("%s:\n%s", file, diff)
		}
	}
}

func applyPatch(t *testing.T, patch []byte, to string) []byte {
	t.Helper()
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := decoded.Apply([]byte(to))
	if err != nil {
		t.Fatalf("%v\n%s", err, patch)
	}
	return patched
}

// FuzzInject injects whatever can be read as a pod: no panic; what comes out is a pod with a proxy, and is left
// alone the second time; the patch makes the same of it.
func FuzzInject(f *testing.F) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archives {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, a := range archive.Files {
			if plain, err := yaml.YAMLToJSON(a.Data); err == nil && a.Name == "pod.yaml" {
				f.Add(plain)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var pod corev1.Pod
		if json.Unmarshal(data, &pod) != nil {
			return
		}
		ns := Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}
		result, err := Inject(&pod, ns, Default())
		if err != nil || result.Pod == nil {
			if err == nil && result.Reason == "" {
				t.Fatal("neither injected nor a reason")
			}
			return
		}
		if again, err := Inject(result.Pod, ns, Default()); err != nil || again.Pod != nil {
			t.Fatalf("a second time: %v %v", again, err)
		}
		if _, err := Patch(&pod, result.Pod); err != nil {
			t.Fatal(err)
		}
	})
}
