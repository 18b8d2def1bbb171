package check

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sallyport/sallyport/config/admission"
)

// endsTunnels judges whether the default gateway's pods have somebody who ends open connections, where there are policies by which they
// would have to end.
func (s *survey) endsTunnels() {
	if s.Gateway == nil || len(s.Gateway.Spec.Selector) == 0 || len(s.Egress) == 0 {
		return
	}
	gateway := labels.SelectorFromSet(s.Gateway.Spec.Selector)
	for _, p := range s.running {
		if p.pod.Namespace != s.Gateway.Namespace || !gateway.Matches(labels.Set(p.pod.Labels)) || slices.ContainsFunc(p.pod.Spec.Containers, asksToEnd) {
			continue
		}
		s.say(p, admission.Warning, "", "", "nobody may end open connections through the gateway: where their bytes are not read (TLS, TCP), they go on after the end of the rule that let them in, and after edits that deny them",
			"set egressGateway.endConnections in the chart's values, or start the gateway's pods anew when connections have to end")
	}
}

// asksToEnd says whether a container is an agent that has somebody end connections.
func asksToEnd(c corev1.Container) bool {
	return slices.ContainsFunc(c.Args, func(arg string) bool { return arg == "--ender" || strings.HasPrefix(arg, "--ender=") })
}
