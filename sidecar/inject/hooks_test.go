package inject

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/sidecar/status/appprobe"
)

// hooked is a container with an HTTP hook.
func hooked(name string) corev1.Container {
	return corev1.Container{Name: name, Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/drain", Port: intstr.FromInt32(8080)},
	}}}
}

// hookOf is where a container's hook leads.
func hookOf(pod *corev1.Pod, container string) string {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	return pod.Spec.Containers[i].Lifecycle.PreStop.HTTPGet.Path
}

// listed are the paths that the agent is told.
func listed(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	proxy := findProxy(&pod.Spec)
	i := slices.IndexFunc(proxy.Env, func(e corev1.EnvVar) bool { return e.Name == appprobe.Variable })
	probes, err := appprobe.Parse(proxy.Env[i].Value)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(probes))
}

// TestHooksAreNobodyElses: only who made the pod knows where its hooks are called, each pod has places of its own, and they stay as they are.
func TestHooksAreNobodyElses(t *testing.T) {
	ns := Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}
	inject := func(pod *corev1.Pod) *corev1.Pod {
		t.Helper()
		result, err := Inject(pod, ns, Default())
		if err != nil || result.Pod == nil {
			t.Fatal(result.Reason, err)
		}
		return result.Pod
	}
	plain := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{hooked("web")}}}
	pod, other := inject(plain), inject(plain)
	place := hookOf(pod, "web")
	if !regexp.MustCompile(`^/app-lifecycle/web/prestopz/[A-Z2-7]{26}$`).MatchString(place) || place == hookOf(other, "web") {
		t.Errorf("%s and %s", place, hookOf(other, "web"))
	}
	if got := listed(t, pod); !slices.Equal(got, []string{place}) {
		t.Errorf("%v", got)
	}
	pod.Spec.Containers = append(pod.Spec.Containers, hooked("late"))
	more := inject(pod)
	if got := listed(t, more); !slices.Equal(got, []string{hookOf(more, "late"), place}) || hookOf(more, "web") != place {
		t.Errorf("%v, and %s", got, hookOf(more, "web"))
	}
}

// TestRangesLeaveTheAgentAlone: no pod's list of ports makes everybody come to its agent as the pod itself.
func TestRangesLeaveTheAgentAlone(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	pod.Annotations = map[string]string{"traffic.sidecar.istio.io/includeInboundPorts": "1:65535"}
	result, err := Inject(pod, Namespace{Name: "shop", Labels: map[string]string{"istio-injection": "enabled"}}, Default())
	if err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	settings := redirect.Bind(flags)
	if err := flags.Parse(result.Pod.Spec.InitContainers[0].Args[1:]); err != nil {
		t.Fatal(err)
	}
	options, err := settings.Options(false)
	if err != nil {
		t.Fatal(err)
	}
	plan := redirect.Build(options)
	for _, own := range []string{"15020", "15021", "15090"} {
		if !strings.Contains(plan.Text(), "-A ISTIO_INBOUND -p tcp -m tcp --dport "+own+" -j RETURN\n") {
			t.Errorf("%s is caught:\n%s", own, plan.Text())
		}
	}
	if len(plan.Notes) > 0 {
		t.Errorf("%q", plan.Notes)
	}
}
