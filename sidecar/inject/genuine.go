package inject

import (
	"fmt"
	"slices"
	"strings"

	"istio.io/api/annotation"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// genuine refuses a pod that only says that it has its proxy (annotation sidecar.istio.io/status): the containers of an
// injector's names, and the volumes that they use, must be what this one makes. What the API server and other webhooks add, and what leads no traffic
// anywhere, may differ.
func (r *reader) genuine(pod *corev1.Pod, o options) {
	if r.permits("containers") {
		return
	}
	name := annotation.SidecarStatus.Name
	fake := func(format string, args ...any) {
		problem := "the pod says that it has its proxy already, and " + fmt.Sprintf(format, args...)
		if r.anySettings { // nor what the mesh permits
			r.mistake(name, pod.Annotations[name], problem, "remove it, and let the injector make them, or let the mesh's owner permit it: changes: [containers] in sallyport.injection.allow of the mesh's settings")
			return
		}
		r.annotationNotPermitted(name, pod.Annotations[name], "containers", problem)
	}
	first := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == InitName })
	switch {
	case !o.intercept:
	case first < 0:
		fake("nothing in it catches its traffic")
	default:
		if what := r.differs(pod.Spec.InitContainers[first], initContainer(o)); what != "" {
			fake("its container %s is not what this injector makes: %s", InitName, what)
		}
	}
	proxy := findProxy(&pod.Spec)
	if what := r.differs(*proxy, r.proxyContainer(pod, o, workloadOf(pod, r.namespace), "")); what != "" {
		fake("its container %s is not what this injector makes: %s", ProxyName, what)
	}
	var others []string
	for _, want := range Volumes(o.RunSize, o.StateSize) {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == want.Name })
		if i < 0 || !equality.Semantic.DeepEqual(ofAnySize(pod.Spec.Volumes[i]), ofAnySize(want)) {
			others = append(others, want.Name)
		}
	}
	if len(others) > 0 {
		fake("of its volumes %s are not what this injector makes", strings.Join(others, ", "))
	}
}

// ofAnySize leaves out how much a volume may hold.
func ofAnySize(v corev1.Volume) corev1.Volume {
	out := *v.DeepCopy()
	if out.EmptyDir != nil {
		out.EmptyDir.SizeLimit = nil
	}
	return out
}

// Fakes gives what is wrong with a pod that only says that it has its proxy, as genuine does. Where the settings come without permissions, as when files are looked at
// without their cluster, nothing is known but what all settings have in common: images, arguments and environment are not judged.
func Fakes(pod *corev1.Pod, namespace string, s Settings) []Mistake {
	if !injected(pod) {
		return nil
	}
	r := newReader(pod.Annotations, namespace, s.Permissions)
	if s.Permissions != nil {
		r.genuine(pod, r.optionsOf(pod, s))
		return r.mistakes
	}
	o := r.optionsOf(pod, s)
	o.intercept = slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == InitName })
	r.mistakes, r.permissions, r.anySettings = nil, nothing{}, true
	r.genuine(pod, o)
	return r.mistakes
}

// nothing permits nothing.
type nothing struct{}

func (nothing) Permits(string, string) bool { return false }
func (nothing) Images(string) []string      { return nil }
