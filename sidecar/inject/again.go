package inject

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/sidecar/status/appprobe"
)

// again completes a pod that has its proxy with the probes of containers that were added since.
func again(pod *corev1.Pod, ns Namespace, s Settings) (Result, error) {
	stays := Result{Reason: alreadyInjected}
	r := newReader(pod.Annotations, ns.Name, s.Permissions)
	o := r.optionsOf(pod, s)
	if r.genuine(pod, o); s.Permissions != nil && len(r.mistakes) > 0 {
		return Result{}, &RefusedError{Pod: podName(pod, ns), Mistakes: r.mistakes}
	}
	out := pod.DeepCopy()
	proxy := findProxy(&out.Spec)
	added, addErr := appprobe.Parse(r.rewriteProbes(out, o))
	if len(added) == 0 || addErr != nil || proxy == nil {
		return stays, nil
	}
	at := slices.IndexFunc(proxy.Env, func(e corev1.EnvVar) bool { return e.Name == appprobe.Variable })
	if at < 0 {
		at = len(proxy.Env)
		proxy.Env = append(proxy.Env, corev1.EnvVar{Name: appprobe.Variable})
	}
	all, err := appprobe.Parse(proxy.Env[at].Value)
	if err != nil {
		return stays, nil // the pod's author wrote it; the agent will say what is wrong
	}
	if all == nil {
		all = appprobe.Probes{}
	}
	maps.Copy(all, added)
	text, err := json.Marshal(all)
	if err != nil {
		return stays, nil
	}
	proxy.Env[at].Value = string(text)
	return Result{Pod: out}, nil
}

// findProxy finds the proxy's container, in either list.
func findProxy(spec *corev1.PodSpec) *corev1.Container {
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			if list[i].Name == ProxyName {
				return &list[i]
			}
		}
	}
	return nil
}
