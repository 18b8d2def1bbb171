package check

import (
	"errors"
	"strings"

	"istio.io/api/annotation"
	"istio.io/api/label"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/sidecar/inject"
)

// pods judges those of the mesh, and those that should be.
func (s *survey) pods() {
	for _, p := range s.running {
		if p.pod.Namespace == s.System || isStatic(p.pod) {
			continue
		}
		if proxyOf(p.pod) != nil {
			s.dangers(p)
			continue
		}
		s.withoutProxy(p)
	}
}

// withoutProxy judges a pod that has no proxy.
func (s *survey) withoutProxy(p subject) {
	result, err := inject.Inject(p.pod, inject.Namespace{Name: p.pod.Namespace, Labels: s.labels[p.pod.Namespace]}, s.Injection)
	switch {
	case err != nil:
		s.refused(p, err)
	case result.Pod != nil:
		s.say(p, admission.Error, "", "", "it runs without a proxy, though it is to have one: it is older than the namespace's label, or was created while the webhook let pods pass",
			"create its pods anew: kubectl -n "+p.key.Namespace+" rollout restart")
	case s.meshed[p.pod.Namespace]:
		s.optedOut(p, result.Reason)
	}
}

// optedOut judges a pod of a meshed namespace that has no proxy because it says so.
func (s *survey) optedOut(p subject, reason string) {
	switch {
	case p.pod.Spec.HostNetwork:
		s.say(p, admission.Error, p.path("spec.hostNetwork"), "true", "the pod uses the node's network, where nothing decides or records what it sends",
			"take hostNetwork away, or move it to a namespace that is not part of the mesh")
	default:
		field := p.path(`metadata.labels["` + label.SidecarInject.Name + `"]`)
		value := p.pod.Labels[label.SidecarInject.Name]
		if value == "" && p.pod.Annotations[annotation.SidecarInject.Name] != "" {
			field, value = p.annotation(annotation.SidecarInject.Name), p.pod.Annotations[annotation.SidecarInject.Name]
		}
		s.say(p, s.bypass(p.pod), field, value, "a pod of a meshed namespace has no proxy, so that nothing decides or records what it sends: "+reason,
			"let it be injected, or move it to a namespace that is not part of the mesh")
	}
}

// refused says why the injector would not let the pod be created.
func (s *survey) refused(p subject, err error) {
	var refused *inject.RefusedError
	if !errors.As(err, &refused) {
		s.say(p, admission.Error, "", "", "the injector refuses its pods: "+oneLine(err.Error()), "")
		return
	}
	s.refusedFor(p, refused.Mistakes)
}

func (s *survey) refusedFor(p subject, mistakes []inject.Mistake) {
	for _, m := range mistakes {
		s.say(p, admission.Error, fieldOf(p, m.Field), m.Value, "the injector refuses its pods: "+m.Problem, m.Fix)
	}
}

// fakes judges what a pod that says that it has its proxy has in its place.
func (s *survey) fakes(p subject) {
	found := inject.Fakes(p.pod, p.key.Namespace, s.Injection)
	if s.Injection.Permissions != nil {
		s.refusedFor(p, found)
		return
	}
	for _, m := range found { // nobody knows what the mesh permits
		s.say(p, s.bypass(p.pod), fieldOf(p, m.Field), m.Value, m.Problem, m.Fix)
	}
}

// fieldOf gives the place of an injector's mistake in the object.
func fieldOf(p subject, field string) string {
	for word, place := range map[string]string{"annotation ": "annotations", "label ": "labels"} {
		if name, ok := strings.CutPrefix(field, word); ok {
			return p.path("metadata." + place + "[" + name + "]")
		}
	}
	return p.path(field)
}

// templates judges the pods of files.
func (s *survey) templates() {
	for _, t := range s.Templates {
		p := subject{pod: t.Pod, key: t.Key, origin: t.Origin}
		if p.key.Namespace == s.System {
			continue
		}
		if proxyOf(p.pod) != nil && p.pod.Annotations[annotation.SidecarStatus.Name] != "" {
			s.fakes(p)
			s.dangers(p)
			continue
		}
		labels, known := s.labels[p.key.Namespace]
		if !known {
			labels = map[string]string{label.IoIstioRev.Name: s.Injection.Revision}
			s.meshed[p.key.Namespace] = true
		}
		result, err := inject.Inject(p.pod, inject.Namespace{Name: p.key.Namespace, Labels: labels}, s.Injection)
		switch {
		case err != nil:
			s.refused(p, err)
			s.dangers(p)
		case result.Pod != nil:
			s.dangers(p)
		case s.meshed[p.key.Namespace]:
			s.optedOut(p, result.Reason)
		}
	}
}

// bypass is how bad a way around the proxy is: something else may still hold the pod.
func (s *survey) bypass(p *corev1.Pod) admission.Severity {
	if s.held(p) {
		return admission.Warning
	}
	return admission.Error
}
