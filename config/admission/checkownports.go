package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

// What is said of pods by their ports is said of the pods' own, as in Istio, and not of those by which a Service leads to them.

// servicePort is a port by which Services lead to another one of their pods.
type servicePort struct {
	service string
	leadsTo uint32
}

// leadsElsewhere says of a port that is none of the pods' with some labels, as far as their Services and what is known of them tell, which Service leads by it to another; false where it
// may be the pods' own. Services whose pods the labels may not be of are left out.
func (w *world) leadsElsewhere(ns string, labels map[string]string, number uint32) (by servicePort, is bool) {
	for _, o := range w.leading(ns) {
		switch spec := o.Spec.(type) {
		case *networking.ServiceEntry:
			if !contradict(spec.WorkloadSelector.Labels, labels) && slices.ContainsFunc(spec.Ports, func(p *networking.ServicePort) bool { return cmp.Or(p.TargetPort, p.Number) == number }) {
				return servicePort{}, false
			}
		case *corev1.Pod:
			if hasLabels(o.Labels, labels) && opens(spec, number) {
				return servicePort{}, false
			}
		case *corev1.Service:
			if contradict(spec.Spec.Selector, labels) {
				continue
			}
			for _, p := range spec.Spec.Ports {
				switch target := uint32(p.TargetPort.IntVal); {
				case p.TargetPort.StrVal != "":
					return servicePort{}, false // which one only pods tell
				case target == number, target == 0 && uint32(p.Port) == number:
					return servicePort{}, false
				case uint32(p.Port) == number && hasLabels(labels, spec.Spec.Selector) || uint32(p.Port) == number && w.bothSelect(ns, labels, spec.Spec.Selector):
					by, is = servicePort{o.Name, target}, true
				}
			}
		}
	}
	return by, is
}

// leading are the pods of a namespace, and what leads to ports of pods there, or says how they are read.
func (w *world) leading(ns string) []*config.Object {
	if w.leadingIn == nil {
		w.leadingIn = map[string][]*config.Object{}
		for i := range w.objects {
			o, is := &w.objects[i], false
			switch spec := o.Spec.(type) {
			case *corev1.Pod:
				is = true
			case *networking.ServiceEntry:
				is = spec.WorkloadSelector != nil
			case *networking.Sidecar:
				is = len(spec.Ingress) > 0
			case *corev1.Service:
				is = o.Kind == config.KindService && len(spec.Spec.Selector) > 0
			}
			if is {
				w.leadingIn[o.Namespace] = append(w.leadingIn[o.Namespace], o)
			}
		}
	}
	return w.leadingIn[ns]
}

// bothSelect says whether a workload that is known has the labels of both.
func (w *world) bothSelect(ns string, a, b map[string]string) bool {
	return slices.ContainsFunc(w.workloads[ns], func(x workload) bool { return hasLabels(x.labels, a) && hasLabels(x.labels, b) })
}

// contradict says whether no workload has the labels of both.
func contradict(a, b map[string]string) bool {
	for k, v := range a {
		if other, has := b[k]; has && other != v {
			return true
		}
	}
	return false
}

// opens says whether a pod names a port as one of its own.
func opens(pod *corev1.Pod, number uint32) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return uint32(p.ContainerPort) == number })
	})
}

// warnServicePort says so of a port.
func (w *world) warnServicePort(r *report, field string, labels map[string]string, number uint32, follows string) {
	if by, is := w.leadsElsewhere(r.of.Namespace, labels, number); is {
		r.warn(field, number, fmt.Sprintf("it is a port of Service %s, which leads by it to port %d of its pods, and the pods' own ports are meant: %s", by.service, by.leadsTo, follows), fmt.Sprintf("write %d", by.leadsTo))
	}
}

// checkPortLevels says where the ports of a PeerAuthentication are a Service's.
func (w *world) checkPortLevels(r *report, p *security.PeerAuthentication) {
	labels := p.GetSelector().GetMatchLabels()
	if len(labels) == 0 || r.of.Namespace == w.cfg.RootNamespace {
		return
	}
	for _, port := range slices.Sorted(maps.Keys(p.PortLevelMtls)) {
		w.warnServicePort(r, fmt.Sprintf("spec.portLevelMtls[%q]", fmt.Sprint(port)), labels, port, "its mode counts for nothing")
	}
}

// mayBeKeptByPods says whether a policy is for workloads of one namespace, by their labels.
func (w *world) mayBeKeptByPods(p *authz.Policy) bool {
	_, ofGateway := p.Selector[selection.GatewayName]
	return !ofGateway && !p.Targeted && p.Key.Namespace != w.cfg.RootNamespace
}

// ofGateways says whether a policy is for gateways; it is looked for when it is asked first.
func (w *world) ofGateways(p *authz.Policy) func() bool {
	return sync.OnceValue(func() bool { return w.selectsOne(p.Workloads, slices.Concat(w.exits(), w.ingresses())) })
}

// checkAuthorizedPorts says the same of an AuthorizationPolicy that pods keep. At gateways and waypoints the ports are those that clients know.
func (w *world) checkAuthorizedPorts(r *report, p *security.AuthorizationPolicy, policy *authz.Policy) {
	if !w.mayBeKeptByPods(policy) {
		return
	}
	ofGateways := w.ofGateways(policy)
	say := func(field string, list []string, follows string) {
		for _, text := range list {
			if n, err := strconv.ParseUint(text, 10, 16); err == nil && !ofGateways() {
				w.warnServicePort(r, field, policy.Selector, uint32(n), follows)
			}
		}
	}
	const none, all = "nothing that comes has this port", "all that comes has another port"
	for i, rule := range p.Rules {
		for j, to := range rule.To {
			field := at(at("spec.rules", i)+".to", j, "operation")
			say(field+".ports", to.GetOperation().GetPorts(), none)
			say(field+".notPorts", to.GetOperation().GetNotPorts(), all)
		}
		for j, c := range rule.When {
			if c.Key == "destination.port" {
				field := at(at("spec.rules", i)+".when", j)
				say(field+".values", c.Values, none)
				say(field+".notValues", c.NotValues, all)
			}
		}
	}
}
