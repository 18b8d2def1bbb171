package check

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/sidecar/inject"
)

// survey is one look at the objects.
type survey struct {
	*Objects
	now      time.Time
	labels   map[string]map[string]string // of namespaces
	meshed   map[string]bool              // namespaces whose pods are injected
	running  []subject                    // the pods that have not ended, in order of their names
	proxies  map[string]Proxy             // what the controllers say of them, by POD.NAMESPACE
	findings []admission.Finding
	seen     map[admission.Finding][]string // findings about pods, and the pods
}

func newSurvey(o *Objects, now time.Time) *survey {
	s := &survey{Objects: o, now: now, labels: map[string]map[string]string{}, meshed: map[string]bool{}, running: running(o.Pods), proxies: byPod(o.Proxies), seen: map[admission.Finding][]string{}}
	plain := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
	for _, ns := range o.Namespaces {
		s.labels[ns.Name] = ns.Labels
		if ns.Name == o.System {
			continue
		}
		result, err := inject.Inject(plain, inject.Namespace{Name: ns.Name, Labels: ns.Labels}, o.Injection)
		s.meshed[ns.Name] = err == nil && result.Pod != nil
	}
	return s
}

// Cluster judges a cluster. The findings are in order.
func Cluster(o *Objects, now time.Time) []admission.Finding {
	s := newSurvey(o, now)
	for _, c := range []struct {
		look  func(*survey)
		needs []Part
	}{
		{(*survey).pods, []Part{PartPods, PartNamespaces, PartInjection}},
		{(*survey).unguarded, []Part{PartPods, PartNamespaces, PartInjection, PartPolicies, PartGuard}},
		{(*survey).guard, []Part{PartGuard}},
		{(*survey).connections, []Part{PartPods, PartProxies}},
		{(*survey).ambient, []Part{PartPods, PartNamespaces, PartAmbient}},
		{(*survey).images, []Part{PartPods, PartInjection}},
		{(*survey).holesForAll, []Part{PartInjection}},
		{(*survey).injectors, []Part{PartWebhooks}},
		{(*survey).validators, []Part{PartWebhooks}},
		{(*survey).callers, []Part{PartWebhooks, PartBundles}},
		{(*survey).bundles, []Part{PartBundles, PartNamespaces, PartInjection}},
		{(*survey).roots, []Part{PartBundles}},
		{(*survey).signer, []Part{PartSigner}},
		{(*survey).controller, []Part{PartController}},
		{(*survey).audit, []Part{PartAudit}},
		{(*survey).gateway, []Part{PartGateway}},
		{(*survey).endsTunnels, []Part{PartGateway, PartPods, PartEgress}},
		{(*survey).endsNothing, []Part{PartProxies, PartPods, PartEgress}},
		{(*survey).kinds, []Part{PartKinds}},
		{(*survey).rights, []Part{PartRights}},
		{(*survey).rulesEnd, []Part{PartEgress}},
	} {
		if o.read(c.needs...) {
			c.look(s)
		}
	}
	return s.all()
}

// Files judges the pods and webhook configurations of files. Namespaces that are not among the objects are taken to be
// part of the mesh.
func Files(o *Objects, now time.Time) []admission.Finding {
	s := newSurvey(o, now)
	s.templates()
	for i := range o.Injectors {
		s.mayBeAway(&o.Injectors[i])
	}
	return s.all()
}

func (s *survey) add(severity admission.Severity, key config.Key, field, value, message, fix string) {
	s.findings = append(s.findings, admission.Finding{Severity: severity, Key: key, Field: field, Value: value, Message: message, Fix: fix})
}

// all puts the findings in order. What holds for several pods of one owner is said once.
func (s *survey) all() []admission.Finding {
	out := s.findings
	for f, pods := range s.seen {
		switch {
		case f.Origin != "" || f.Key.Kind == config.KindPod:
		case len(pods) == 1:
			f.Origin = "pod " + pods[0]
		default:
			f.Origin = fmt.Sprintf("pod %s and %d more", pods[0], len(pods)-1)
		}
		out = append(out, f)
	}
	admission.Sort(out)
	return out
}

func key(kind, namespace, name string) config.Key {
	return config.Key{Kind: config.Kind(kind), Namespace: namespace, Name: name}
}

// oneLine makes other programs' words fit into a finding.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
