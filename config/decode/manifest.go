package decode

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config"
)

// Manifest writes an object of one of Istio's kinds, or of ours, in JSON on one line, as File reads it: with the same Hash.
func Manifest(o *config.Object) ([]byte, error) {
	group, versions := IstioKind(o.Kind)
	if group == "" {
		return nil, fmt.Errorf("%s: objects of this kind are not written", o.Key)
	}
	type metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace,omitempty"`
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
		Created     *metav1.Time      `json:"creationTimestamp,omitempty"`
	}
	m := metadata{Name: o.Name, Namespace: o.Namespace, Labels: o.Labels, Annotations: o.Annotations}
	if !o.Created.IsZero() {
		m.Created = &metav1.Time{Time: o.Created}
	}
	text, err := json.Marshal(struct {
		APIVersion string      `json:"apiVersion"`
		Kind       config.Kind `json:"kind"`
		Metadata   metadata    `json:"metadata"`
		Spec       any         `json:"spec"`
	}{group + "/" + versions[0], o.Kind, m, o.Spec})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	return text, nil
}
