package inject

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestGolden injects pod.yaml of each archive, in a namespace with the labels of namespace.yaml
// (istio-injection: enabled, if there is none) by the settings of config.yaml. "want" holds the pod as it becomes, or
// why it stays or is refused, below what its author is told.
func TestGolden(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, file := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string][]byte{}
			for _, f := range archive.Files {
				files[f.Name] = f.Data
			}
			got := injectFiles(t, files)
			if *update {
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(string(files["want"]), got); diff != "" {
				t.Errorf("-want +got:\n%s\nrun with -update when this is right", diff)
			}
		})
	}
}

func injectFiles(t *testing.T, files map[string][]byte) string {
	t.Helper()
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(files["pod.yaml"], &pod); err != nil {
		t.Fatal(err)
	}
	settings, err := ParseSettings(files["config.yaml"])
	if err != nil {
		return "settings: " + err.Error() + "\n"
	}
	ns := Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}
	if labels, ok := files["namespace.yaml"]; ok {
		ns.Labels = nil
		if err := yaml.UnmarshalStrict(labels, &ns.Labels); err != nil {
			t.Fatal(err)
		}
	}
	made := 0
	settings.Secret = func() string { made++; return fmt.Sprintf("SECRET%d", made) }
	before := pod.DeepCopy()
	result, err := Inject(&pod, ns, settings)
	if diff := cmp.Diff(before, &pod); diff != "" {
		t.Errorf("the pod that was given has changed:\n%s", diff)
	}
	var out strings.Builder
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		fmt.Fprintf(&out, "refused:\n%s\n", refused)
		return out.String()
	case err != nil:
		t.Fatal(err)
	case result.Pod == nil:
		fmt.Fprintf(&out, "stays: %s\n", result.Reason)
		return out.String()
	}
	for _, warning := range result.Warnings {
		fmt.Fprintf(&out, "# warning: %s\n", warning)
	}
	text, err := yaml.Marshal(result.Pod)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	if again, err := Inject(result.Pod, ns, settings); err != nil || again.Pod != nil {
		t.Errorf("injected twice: %v %v", again, err)
	}
	return out.String()
}
