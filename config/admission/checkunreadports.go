package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// checkUnreadPorts warns of what an ALLOW rule asks of requests at ports where nobody reads any: it allows nothing there.
func (w *world) checkUnreadPorts(r *report, p *security.AuthorizationPolicy, policy *authz.Policy) {
	if policy.Action != authz.Allow || !w.mayBeKeptByPods(policy) {
		return
	}
	ofGateways := w.ofGateways(policy)
	for i := range policy.Rules {
		if !policy.Rules[i].OfRequests() {
			continue
		}
		for j, to := range p.Rules[i].To {
			ports := to.GetOperation().GetPorts()
			service := w.unreadPorts(r.of.Namespace, policy.Selector, ports)
			if service == "" || ofGateways() {
				continue
			}
			r.warn(at(at("spec.rules", i)+".to", j, "operation")+".ports", strings.Join(ports, ", "),
				fmt.Sprintf("Service %s does not lead there as to a port of requests, so that nobody reads them, and the rule is for requests alone (methods, paths, hosts, headers or tokens): it allows nothing there", service),
				"write a rule without these, or name the Service's port for requests (http, or appProtocol)")
		}
	}
}

// unreadPorts is unreadPort for all of some ports.
func (w *world) unreadPorts(ns string, labels map[string]string, ports []string) (service string) {
	for _, text := range ports {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return ""
		}
		if service = w.unreadPort(ns, labels, uint32(n)); service == "" {
			return ""
		}
	}
	return service
}

// unreadPort is a Service that leads to a port of all pods with some labels, and not as to one where requests are read; "" where they may be, or no such Service is known.
func (w *world) unreadPort(ns string, labels map[string]string, number uint32) (service string) {
	for _, o := range w.leading(ns) {
		switch spec := o.Spec.(type) {
		case *networking.Sidecar: // its ports may be read otherwise
			return ""
		case *networking.ServiceEntry:
			if !contradict(spec.WorkloadSelector.Labels, labels) && slices.ContainsFunc(spec.Ports, func(p *networking.ServicePort) bool {
				return cmp.Or(p.TargetPort, p.Number) == number && registry.ParseProtocol(p.Protocol).IsHTTP()
			}) {
				return ""
			}
		case *corev1.Service:
			if contradict(spec.Spec.Selector, labels) {
				continue
			}
			for _, p := range spec.Spec.Ports {
				protocol, named := registry.KubeProtocol(p), p.TargetPort.StrVal != ""
				switch {
				case !named && cmp.Or(uint32(p.TargetPort.IntVal), uint32(p.Port)) != number || protocol == registry.UDP:
				case protocol.IsHTTP(): // or, by a name, it may be
					return ""
				case !named && hasLabels(labels, spec.Spec.Selector):
					service = o.Name
				}
			}
		}
	}
	return service
}
