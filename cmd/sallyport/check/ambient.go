package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/ambient"
)

// WantsAmbient are the pods that are to be in the mesh by their nodes' proxies.
func (o *Objects) WantsAmbient() (pods []*corev1.Pod) {
	modes := map[string]string{}
	for _, ns := range o.Namespaces {
		modes[ns.Name] = ns.Labels[ambient.Label]
	}
	for _, p := range running(o.Pods) {
		mode, own := p.pod.Labels[ambient.Label]
		if !own {
			mode = modes[p.pod.Namespace]
		}
		if mode == ambient.In && proxyOf(p.pod) == nil && p.pod.Namespace != o.System && !slices.Contains(registry.SystemNamespaces, p.pod.Namespace) {
			pods = append(pods, p.pod)
		}
	}
	return pods
}

// ambient judges the pods that are to be served by their nodes' proxies.
func (s *survey) ambient() {
	for _, pod := range s.WantsAmbient() {
		p := subject{pod: pod, key: OwnerOf(pod)}
		said, agent := s.Served[pod.Spec.NodeName]
		i := slices.IndexFunc(said, func(v Served) bool { return v.Pod == pod.Namespace+"/"+pod.Name })
		switch {
		case pod.Spec.NodeName == "":
		case pod.Spec.HostNetwork:
			s.say(p, admission.Error, p.path("spec.hostNetwork"), "true", "the pod uses the node's network, where nothing decides or records what it sends",
				"take hostNetwork away, or label it "+ambient.Label+": "+ambient.Out)
		case !agent:
			s.say(p, admission.Error, "", "", "it is to be in the mesh without a sidecar, and no agent is ready on its node "+pod.Spec.NodeName,
				"set ambient.enabled in the chart's values, and see kubectl -n "+s.System+" get pods -o wide -l "+AmbientLabel)
		case i < 0:
			s.say(p, admission.Error, "", "", "it is to be in the mesh without a sidecar, and its node's agent was not told of it",
				"see kubectl -n "+s.System+" logs -l "+AmbientLabel)
		case said[i].Why != "":
			s.say(p, admission.Error, "", "", "it is to be in the mesh without a sidecar, and its node's proxy does not serve it: "+oneLine(said[i].Why),
				"see docs/how-to/ambient.md for what is not served")
		}
	}
}

// AmbientLabel selects the nodes' agents.
const AmbientLabel = "app=sallyport-ambient"
