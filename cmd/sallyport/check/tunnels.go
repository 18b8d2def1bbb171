package check

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/xds/wire"
)

// endsTunnels judges whether the default gateway's pods have somebody who ends open connections, where there are policies by which they
// would have to end.
func (s *survey) endsTunnels() {
	if s.Gateway == nil || len(s.Gateway.Spec.Selector) == 0 || len(s.Egress) == 0 {
		return
	}
	gateway := labels.SelectorFromSet(s.Gateway.Spec.Selector)
	for _, p := range s.running {
		if p.pod.Namespace != s.Gateway.Namespace || !gateway.Matches(labels.Set(p.pod.Labels)) {
			continue
		}
		if slices.ContainsFunc(p.pod.Spec.Containers, asksToEnd) {
			s.endsNow(p)
			continue
		}
		if proxy, _ := s.proxyOf(p); proxy.Ends != "" { // see endsNothing
			continue
		}
		s.say(p, admission.Warning, "", "", "nobody may end open connections through the gateway: where their bytes are not read (TLS, TCP), they go on after the end of the rule that let them in, and after edits that deny them",
			"set egressGateway.endConnections in the chart's values, or start the gateway's pods anew when connections have to end")
	}
}

// endsNothing judges the proxies that say of themselves that nobody may end open connections there, where there are policies that are about them.
func (s *survey) endsNothing() {
	for _, p := range s.running {
		policed := slices.ContainsFunc(s.Egress, func(o config.Object) bool {
			return p.pod.Namespace == s.System || o.Key.Namespace == s.Mesh.RootNamespace || o.Key.Namespace == p.pod.Namespace
		})
		if proxy, _ := s.proxyOf(p); policed && proxy.Ends == wire.EndsNone {
			s.say(p, admission.Warning, "", "", "nobody may end open connections at its proxy: TLS and TCP that leave there go on after the end of the rule that let them through, and after edits that deny them",
				"see the proxy's log for the reason (a seccomp profile, or kernel.yama.ptrace_scope, of the node; or sallyport.traceProxies: false in the mesh settings); or let what must end leave by an egress gateway")
		}
	}
}

// endsNow judges whether the container that ends connections runs, in a pod that has one.
func (s *survey) endsNow(p subject) {
	for _, c := range p.pod.Spec.InitContainers {
		of := func(st corev1.ContainerStatus) bool { return st.Name == c.Name }
		i := slices.IndexFunc(p.pod.Status.InitContainerStatuses, of)
		if !slices.Contains(c.Args, "end") || i < 0 || p.pod.Status.InitContainerStatuses[i].State.Running != nil {
			continue
		}
		s.say(p, admission.Warning, "", "", "its container "+c.Name+" does not run: open connections that are denied by now go on until it does",
			"look at its log (kubectl logs "+p.pod.Name+" -c "+c.Name+" -n "+p.pod.Namespace+") and at the events of the pod")
	}
}

// asksToEnd says whether a container is an agent that has somebody end connections.
func asksToEnd(c corev1.Container) bool {
	return slices.ContainsFunc(c.Args, func(arg string) bool { return arg == "--ender" || strings.HasPrefix(arg, "--ender=") })
}
