package inject

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"istio.io/api/annotation"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config/fields"
)

// reader reads annotations and notes what is wrong, and what was read.
type reader struct {
	annotations map[string]string
	read        map[string]bool
	mistakes    []Mistake
	warnings    []string

	namespace   string
	permissions Permissions
	anySettings bool // nothing is known of the settings that made a pod's proxy
}

func newReader(annotations map[string]string, namespace string, permissions Permissions) *reader {
	return &reader{annotations: annotations, read: map[string]bool{}, namespace: namespace, permissions: permissions}
}

func (r *reader) get(name string) (string, bool) {
	value, ok := r.annotations[name]
	if r.read != nil {
		r.read[name] = true
	}
	return value, ok
}

func (r *reader) mistake(name, value, problem, fix string) {
	r.mistakes = append(r.mistakes, Mistake{Field: fmt.Sprintf("annotation %q", name), Value: value, Problem: problem, Fix: fix})
}

func (r *reader) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

func (r *reader) boolean(name string, into *bool) {
	value, ok := r.get(name)
	if !ok {
		return
	}
	is, ok := parseBool(value)
	if !ok {
		r.mistake(name, value, "is neither true nor false", boolFix)
		return
	}
	*into = is
}

func (r *reader) text(name string, into *string, problem func(string) string, fix string) {
	value, ok := r.get(name)
	if !ok {
		return
	}
	if p := problem(value); p != "" {
		r.mistake(name, value, p, fix)
		return
	}
	*into = value
}

// imageProblem says what is wrong with an image's name.
func imageProblem(image string) string {
	if _, err := name.ParseReference(image); err != nil {
		return "is no image's name"
	}
	return ""
}

// Prefixes of the annotations that are about sidecars.
var prefixes = []string{"sidecar.istio.io/", "traffic.sidecar.istio.io/", "status.sidecar.istio.io/", "readiness.status.sidecar.istio.io/", "prometheus.istio.io/"}

// mergesMetrics warns that metrics are not merged: whoever expects them at one place does not see the application's.
func (r *reader) mergesMetrics() {
	name := annotation.PrometheusMergeMetrics.Name
	value, ok := r.get(name)
	if merge, said := parseBool(value); ok && (merge || !said) {
		r.warn("annotation %q: %q: is not applied: %s", name, value, fields.NoMerge)
	}
}

// useless warns of annotations about sidecars that were not read: mistyped ones, and those that mean nothing here.
func (r *reader) useless(pod *corev1.Pod) {
	known := map[string]bool{}
	for _, a := range annotation.AllResourceAnnotations() {
		known[a.Name] = true
	}
	r.read[annotation.SidecarInject.Name], r.read[annotation.SidecarStatus.Name] = true, true
	for _, name := range slices.Sorted(maps.Keys(pod.Annotations)) {
		about := slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		switch {
		case !about || r.read[name]:
		case known[name]:
			r.warn("annotation %q has no effect here", name)
		default:
			r.warn("annotation %q is unknown and has no effect; is it mistyped?", name)
		}
	}
}
