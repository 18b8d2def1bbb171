package chart

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	namespace   = "istio-system"
	kubeVersion = "1.36.1" // the version that goldens are rendered for
)

// helm runs helm in the chart's folder and gives its output, or skips the test where there is no helm.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), findHelm(t), args...)
	home := t.TempDir() // no plugins, no repositories of the user's
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "HELM_CACHE_HOME="+home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), errors.New(strings.TrimSpace(errs.String()) + " (" + err.Error() + ")")
	}
	return out.String(), nil
}

// findHelm prefers what `make cluster-tools` built.
func findHelm(t *testing.T) string {
	t.Helper()
	if cache, err := os.UserCacheDir(); err == nil {
		built, err := filepath.Glob(filepath.Join(cache, "sallyport", "helm-*", "helm"))
		if err == nil && len(built) > 0 {
			slices.Sort(built)
			return built[len(built)-1]
		}
	}
	path, err := exec.LookPath("helm")
	if err != nil {
		t.Skip("there is no helm: run `make cluster-tools`")
	}
	return path
}

// template renders the chart.
func template(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"template", "sallyport", ".", "--namespace", namespace, "--kube-version", kubeVersion}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// valueSets are the names of testdata/NAME.values.yaml.
func valueSets(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata: %d sets of values, %v", len(files), err)
	}
	sets := map[string]string{}
	for _, file := range files {
		sets[strings.TrimSuffix(filepath.Base(file), ".values.yaml")] = file
	}
	return sets
}

// objects are those of a rendered chart.
func objects(t *testing.T, rendered string) []*unstructured.Unstructured {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rendered), 4096)
	var all []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		case len(o.Object) > 0:
			all = append(all, o)
		}
	}
}

// find gives the object of that kind and name.
func find(t *testing.T, all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return all[i]
}
