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

// IstioCRDs is the file with Istio's CRDs, inside the module istio.io/api that go.mod pins.
func IstioCRDs() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "istio.io/api").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m istio.io/api: %w", err)
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", errors.New("the module istio.io/api is not downloaded: run `go mod download istio.io/api`")
	}
	return filepath.Join(dir, "kubernetes", "customresourcedefinitions.gen.yaml"), nil
}

// ApplyIstioCRDs applies Istio's CRDs and waits until they are served.
func ApplyIstioCRDs(ctx context.Context, config *rest.Config) error {
	file, err := IstioCRDs()
	if err != nil {
		return err
	}
	return ApplyCRDs(ctx, config, file)
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
