package apply

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The marks that programs leave on what they write again from somewhere else, and what to do there.
var (
	keptByAnnotation = []mark{
		{"argocd.argoproj.io/tracking-id", "Argo CD syncs it: change it in the repository that its application is of"},
		{"kubectl.kubernetes.io/last-applied-configuration", "it was written by kubectl apply, from a file: change it in that file, and apply that"},
	}
	keptByLabel = []mark{
		{"kustomize.toolkit.fluxcd.io/name", "a Flux Kustomization applies it: change it in the repository that it is of"},
		{"helm.toolkit.fluxcd.io/name", "a Flux HelmRelease installs it: change it in the release's chart or values"},
		{managedBy, "the program that the label names installs it: change it there"},
	}
)

const managedBy = "app.kubernetes.io/managed-by"

type mark struct{ name, means string }

// kept refuses an object that another program would write back: what is changed here would be lost with its next write.
func kept(live *unstructured.Unstructured) error {
	for _, m := range live.GetManagedFields() {
		if m.Operation == metav1.ManagedFieldsOperationApply && m.Manager != Manager && m.Subresource == "" {
			return fmt.Errorf("%q applies it, and would take back what is changed here: change it there", m.Manager)
		}
	}
	if err := marked("annotation", live.GetAnnotations(), keptByAnnotation); err != nil {
		return err
	}
	return marked("label", live.GetLabels(), keptByLabel)
}

// marked says by which mark an object is kept. A long value, such as a whole object, is left out.
func marked(where string, values map[string]string, marks []mark) error {
	for _, m := range marks {
		value, there := values[m.name]
		if !there || m.name == managedBy && cmp.Or(value, Manager) == Manager {
			continue
		}
		if len(value) > 100 {
			value = "…"
		}
		return fmt.Errorf("%s %s=%q: %s; what is changed here would be taken back", where, m.name, value, m.means)
	}
	return nil
}
