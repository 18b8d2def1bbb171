package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/sidecar/status/appprobe"
)

// differs names the first thing in a container of the injector's that is not as the injector makes it; "" when there is none that counts. What
// it may use, when its image is pulled, and what its last words are is free.
func (r *reader) differs(have, want corev1.Container) string {
	if r.anySettings {
		want.Image, want.Args, want.Env = have.Image, have.Args, have.Env
	}
	if r.anySettings && have.Name == ProxyName { // a native sidecar, or an ordinary container
		want.RestartPolicy = have.RestartPolicy
	}
	if have.Image != want.Image && !r.permitsImage(have.Image) {
		return fmt.Sprintf("its image is %q, and not %q", have.Image, want.Image)
	}
	for _, what := range []string{
		differentArgs(have.Args, want.Args), differentEnv(have.Env, want.Env), differentMounts(have.VolumeMounts, want.VolumeMounts), differentHooks(have.Lifecycle),
		differentFields(plainContainer(have), plainContainer(want)),
	} {
		if what != "" {
			return what
		}
	}
	return ""
}

// differentArgs compares arguments. Who refuses QUIC though the mesh does not ask for it closes more than that.
func differentArgs(have, want []string) string {
	if n := len(have); n == len(want)+1 && have[n-1] == blockQUIC {
		have = have[:n-1]
	}
	for i := range max(len(have), len(want)) {
		switch {
		case i >= len(have):
			return fmt.Sprintf("its argument %d, %q, is missing", i+1, want[i])
		case i >= len(want):
			return fmt.Sprintf("its argument %d, %q, is one too many", i+1, have[i])
		case have[i] != want[i]:
			return fmt.Sprintf("its argument %d is %q, and not %q", i+1, have[i], want[i])
		}
	}
	return ""
}

// freeVariables say how the proxy ends, how many threads it has and what it is called; the probes are the agent's to judge.
var freeVariables = []string{
	"TERMINATION_DRAIN_DURATION", "MINIMUM_DRAIN_DURATION", "CONCURRENCY",
	"ISTIO_META_APP_CONTAINERS", "ISTIO_META_WORKLOAD_NAME", "ISTIO_META_OWNER", appprobe.Variable,
}

// differentEnv compares variables, of two of a name the last, which is the one that counts. Others may be there that nothing is led by.
func differentEnv(have, want []corev1.EnvVar) string {
	theirs, ours := byName(have), byName(want)
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if !slices.Contains(freeVariables, name) && !equality.Semantic.DeepEqual(theirs[name], ours[name]) {
			return fmt.Sprintf("its variable %s is %q, and not %q", name, theirs[name].Value, ours[name].Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if _, known := ours[name]; !known && leads(name) {
			return fmt.Sprintf("its variable %s is %q, and is not to be there", name, theirs[name].Value)
		}
	}
	return ""
}

func byName(list []corev1.EnvVar) map[string]corev1.EnvVar {
	out := map[string]corev1.EnvVar{}
	for _, e := range list {
		out[e.Name] = e
	}
	return out
}

// leads says whether a variable has a say in what runs in the container, where its files are, or what is caught.
func leads(name string) bool {
	return runs(name) || redirect.ReadsVariable(name) ||
		slices.Contains([]string{"PROXY_CONFIG", "DNS_PROXY_ADDR", "SALLYPORT_RUN_DIR", "SALLYPORT_ENDER", "SALLYPORT_EXEC_PROBES"}, name)
}

// runs says whether a variable says which program runs as the proxy, or with what code.
func runs(name string) bool {
	return name == "PATH" || name == "ENVOY" || strings.HasPrefix(name, "LD_")
}

// secrets is where the API server, and webhooks of clouds, mount what containers say who they are by.
const (
	secrets      = "/var/run/secrets/"
	accountMount = secrets + "kubernetes.io/serviceaccount" // the API server's own
)

// programs are the folders of programs, and of what these read: what is mounted there runs as the proxy, or has a say in how it does.
var programs = []string{"/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr"}

// differentMounts compares what is mounted. More may be mounted, as webhooks do in all containers of a pod, where it hides neither programs nor what is ours.
func differentMounts(have, want []corev1.VolumeMount) string {
	has := func(list []corev1.VolumeMount, m corev1.VolumeMount) bool {
		return slices.ContainsFunc(list, func(x corev1.VolumeMount) bool { return equality.Semantic.DeepEqual(x, m) })
	}
	for _, m := range want {
		if !has(have, m) {
			return fmt.Sprintf("its mount of %s at %s is missing, or another", m.Name, m.MountPath)
		}
	}
	ours := VolumeMounts()
	for _, m := range have {
		at := path.Clean("/" + m.MountPath)
		if at == "/run" || strings.HasPrefix(at, "/run/") { // a link to it in most images
			at = "/var" + at
		}
		hides := slices.ContainsFunc(programs, func(of string) bool { return overlap(at, of) }) ||
			slices.ContainsFunc(ours, func(o corev1.VolumeMount) bool { return overlap(at, o.MountPath) })
		if hides && !has(want, m) {
			return fmt.Sprintf("%s is mounted at %s", m.Name, m.MountPath)
		}
	}
	return ""
}

// overlap says whether one of two folders is the other, or below it.
func overlap(a, b string) bool {
	a, b = strings.TrimSuffix(a, "/")+"/", b+"/" // the root ends with one already
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// differentHooks finds hooks that are not ours. None at all is no way around.
func differentHooks(l *corev1.Lifecycle) string {
	if l == nil {
		return ""
	}
	ours := func(have, want *corev1.LifecycleHandler) bool {
		return have == nil || equality.Semantic.DeepEqual(have, want)
	}
	if !ours(l.PostStart, waitForProxy().PostStart) || !ours(l.PreStop, askClientsToGo().PreStop) || l.StopSignal != nil {
		return "its lifecycle is another"
	}
	return ""
}

// withoutFree leaves out what is free: how much the container may use, when its image is pulled, and what its last words are. They are left at the usual
// place, since the kubelet mounts a file there.
func withoutFree(c corev1.Container) corev1.Container {
	c = *c.DeepCopy()
	c.Resources, c.ResizePolicy, c.ImagePullPolicy = corev1.ResourceRequirements{}, nil, ""
	c.TerminationMessagePolicy = ""
	if c.TerminationMessagePath == corev1.TerminationMessagePathDefault {
		c.TerminationMessagePath = ""
	}
	return c
}

// plainContainer leaves out what was compared already and what is free, and writes as it is not written what the API server adds.
func plainContainer(c corev1.Container) corev1.Container {
	c = withoutFree(c)
	c.Image, c.Args, c.Env, c.VolumeMounts, c.Lifecycle = "", nil, nil, nil, nil
	for i := range c.Ports {
		if c.Ports[i].Protocol == "" {
			c.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
	if s := c.SecurityContext; s != nil {
		c.SecurityContext = rights(s)
	}
	return c
}

// rights are what a container may do by who it is and what it was given. What takes more from it is anybody's to add: without what the init step needs it fails, and its
// pod does not start.
func rights(s *corev1.SecurityContext) *corev1.SecurityContext {
	out := &corev1.SecurityContext{Privileged: s.Privileged, RunAsUser: s.RunAsUser, RunAsGroup: s.RunAsGroup, WindowsOptions: s.WindowsOptions}
	if s.Capabilities != nil {
		out.Capabilities = &corev1.Capabilities{Add: s.Capabilities.Add}
	}
	if s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount {
		out.ProcMount = s.ProcMount
	}
	return out
}

// differentFields names the first field that is not the same.
func differentFields(have, want corev1.Container) string {
	theirs, ours := asFields(have), asFields(want)
	names := map[string]bool{}
	for _, fields := range []map[string]any{theirs, ours} {
		for name := range fields {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !reflect.DeepEqual(theirs[name], ours[name]) {
			return "its " + name + " is another"
		}
	}
	return ""
}

func asFields(c corev1.Container) map[string]any {
	var out map[string]any
	text, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return map[string]any{"form": err.Error()}
	}
	return out
}
