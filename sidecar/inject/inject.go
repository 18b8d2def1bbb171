package inject

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Result is what became of a pod.
type Result struct {
	Pod      *corev1.Pod // the changed copy; nil when the pod stays as it is
	Reason   string      // why it stays as it is
	Warnings []string    // what its author should know, for the answer to kubectl
}

// Inject gives a pod its proxy. A pod that is not to have one, or has it already, is no error: Result says why. The error
// is a *RefusedError when the pod asks for something that cannot be. The pod itself is not changed.
func Inject(pod *corev1.Pod, ns Namespace, s Settings) (Result, error) {
	why, mistake := refusal(pod, ns, s)
	if mistake != nil {
		return Result{}, &RefusedError{Pod: podName(pod, ns), Mistakes: []Mistake{*mistake}}
	}
	if why == alreadyInjected {
		return again(pod, ns, s)
	}
	if why != "" {
		return Result{Reason: why}, nil
	}
	r := newReader(pod.Annotations, ns.Name, s.Permissions)
	o := r.optionsOf(pod, s)
	r.dangers(pod, o)
	r.earlyDangers(pod, o)
	r.nameServers(pod, o)
	r.customsPermitted(pod)
	r.clashes(pod)
	if len(r.mistakes) > 0 {
		return Result{}, &RefusedError{Pod: podName(pod, ns), Mistakes: r.mistakes}
	}
	out := pod.DeepCopy()
	customs, err := takeCustom(out)
	if err != nil {
		return Result{}, &RefusedError{Pod: podName(pod, ns), Mistakes: []Mistake{*err}}
	}
	probes := r.rewriteProbes(out, o)
	work := workloadOf(pod, ns.Name)
	proxy := r.proxyContainer(out, o, work, probes)
	if proxy, err = customs.apply(proxy); err != nil {
		return Result{}, &RefusedError{Pod: podName(pod, ns), Mistakes: []Mistake{*err}}
	}
	initial := []corev1.Container{}
	if o.intercept {
		container, err := customs.apply(initContainer(o))
		if err != nil {
			return Result{}, &RefusedError{Pod: podName(pod, ns), Mistakes: []Mistake{*err}}
		}
		initial = append(initial, container)
	} else if _, written := customs[InitName]; written {
		r.warn("container %q: it is left out, as nothing of the pod's traffic is caught (%s); remove it, or let the traffic be caught", InitName, interceptNone)
	}
	place(&out.Spec, initial, proxy, o)
	out.Spec.Volumes = append(out.Spec.Volumes, Volumes(o.RunSize, o.StateSize)...)
	addPullSecrets(&out.Spec, o.ImagePullSecrets)
	describe(out, pod, o, work)
	return Result{Pod: out, Warnings: r.warnings}, nil
}

// place puts the containers in. A native sidecar runs before the application's own init containers, so that their
// traffic is caught too; otherwise they must run before anything is caught, as nobody would carry their traffic.
func place(spec *corev1.PodSpec, initial []corev1.Container, proxy corev1.Container, o options) {
	switch {
	case o.native:
		spec.InitContainers = slices.Concat(initial, []corev1.Container{proxy}, spec.InitContainers)
		return
	case o.HoldApplicationUntilProxyStarts: // the kubelet starts containers in order, and waits for postStart hooks
		spec.Containers = slices.Concat([]corev1.Container{proxy}, spec.Containers)
	default:
		spec.Containers = append(spec.Containers, proxy)
	}
	spec.InitContainers = append(spec.InitContainers, initial...)
}

func addPullSecrets(spec *corev1.PodSpec, names []string) {
	for _, name := range names {
		reference := corev1.LocalObjectReference{Name: name}
		if !slices.Contains(spec.ImagePullSecrets, reference) {
			spec.ImagePullSecrets = append(spec.ImagePullSecrets, reference)
		}
	}
}

// podName names a pod for its author: one that a controller makes has no name yet.
func podName(pod *corev1.Pod, ns Namespace) string {
	name := pod.Name
	if name == "" {
		name = pod.GenerateName + "*"
	}
	return ns.Name + "/" + name
}
