package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/e2e/world"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// fieldOwner is who server-side apply remembers.
const fieldOwner = "sallyport-e2e"

// meshCRDs are the files that the chart is packaged with: Istio's CRDs, inside the module istio.io/api that go.mod pins, and
// our own.
func meshCRDs() ([]string, error) {
	istio, err := moduleDir("istio.io/api")
	if err != nil {
		return nil, err
	}
	own, err := moduleDir("github.com/sallyport/sallyport")
	if err != nil {
		return nil, err
	}
	return []string{
		filepath.Join(istio, "kubernetes", "customresourcedefinitions.gen.yaml"),
		filepath.Join(own, "chart", "crds", "egresspolicy.yaml"),
	}, nil
}

func moduleDir(module string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", fmt.Errorf("the module %s is not downloaded: run `go mod download %s`", module, module)
	}
	return dir, nil
}

// ApplyMeshCRDs applies the CRDs that the chart is packaged with, and waits until they are served.
func ApplyMeshCRDs(ctx context.Context, config *rest.Config) error {
	files, err := meshCRDs()
	if err != nil {
		return err
	}
	return ApplyCRDs(ctx, config, files...)
}

// ApplyGatewayAPICRDs does so for those of the Gateway API's experimental channel, which has all that the standard one has.
func ApplyGatewayAPICRDs(ctx context.Context, config *rest.Config) error {
	dir, err := moduleDir("sigs.k8s.io/gateway-api")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "config", "crd", "experimental", "gateway.networking.k8s.io_*.yaml"))
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f string) bool { return strings.Contains(filepath.Base(f), "_vap_") }) // a policy, and no kind
	if len(files) == 0 {
		return fmt.Errorf("%s has no CRDs", dir)
	}
	return ApplyCRDs(ctx, config, files...)
}

// ApplyCRDs applies the CustomResourceDefinitions of the files and waits until they are served.
func ApplyCRDs(ctx context.Context, config *rest.Config, files ...string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	crds := client.Resource(crdResource)
	var names []string
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if object.GetKind() != "CustomResourceDefinition" {
				return fmt.Errorf("%s: %s %s is no CustomResourceDefinition", file, object.GetKind(), object.GetName())
			}
			names = append(names, object.GetName())
			if _, err := crds.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldOwner, Force: true}); err != nil {
				return fmt.Errorf("%s: applying %s: %w", file, object.GetName(), err)
			}
		}
	}
	for _, name := range names {
		err := world.Poll(ctx, pollEvery, func() error { return established(ctx, crds, name) })
		if err != nil {
			return err
		}
	}
	return nil
}

func established(ctx context.Context, crds dynamic.ResourceInterface, name string) error {
	crd, err := crds.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return err
	}
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("CustomResourceDefinition %s is not established: %v", name, conditions)
}

// readObjects reads the documents of a YAML file; empty ones are left out.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}
