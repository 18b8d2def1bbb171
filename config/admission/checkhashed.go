package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Of requests alone the endpoint is chosen by a hash: what goes on unread, of TCP and TLS, has none (farend.WithHashPolicy).

// checkHashed warns of consistentHash for ports at which nobody reads requests: of useSourceIp, which seems to be for connections, wherever there is such a port, and of
// what only requests have, where there is no other.
func (w *world) checkHashed(r *report, d *networking.DestinationRule) {
	n := w.fullName(d.Host, r.of.Namespace)
	var read, unread []uint32
	for p := range w.portsRegistered(n) {
		switch {
		case p.protocol.IsHTTP():
			read = append(read, p.number)
		case p.protocol == registry.TCP, p.protocol == registry.TLS && !w.services[n] && !w.requestsGo(n, p.number):
			unread = append(unread, p.number)
		}
	}
	if len(unread) == 0 {
		return
	}
	slices.Sort(unread)
	unread = slices.Compact(unread)
	judge := func(field string, l *networking.LoadBalancerSettings, in func(uint32) bool) {
		lost := slices.DeleteFunc(slices.Clone(unread), func(p uint32) bool { return !in(p) })
		if l.GetConsistentHash().GetHashKey() == nil || len(lost) == 0 || !byClient(l) && slices.ContainsFunc(read, in) {
			return
		}
		r.warn(at(field, "loadBalancer.consistentHash"), nil, fmt.Sprintf("connections that nobody reads go to any endpoint, whatever is hashed: it has no effect at %s", portsNamed(lost)),
			"write it into portLevelSettings of ports of requests, or remove it")
	}
	eachPolicy := func(field string, policy *networking.TrafficPolicy) {
		judge(field, policy.GetLoadBalancer(), func(p uint32) bool { return !hasPort(policy, p) })
		for i, p := range policy.GetPortLevelSettings() {
			judge(at(field, "portLevelSettings", i), p.LoadBalancer, func(port uint32) bool { return p.GetPort().GetNumber() == port })
		}
	}
	eachPolicy("spec.trafficPolicy", d.GetTrafficPolicy())
	for i, s := range d.Subsets {
		eachPolicy(at("spec.subsets", i, "trafficPolicy"), s.TrafficPolicy)
	}
}

func byClient(l *networking.LoadBalancerSettings) bool { return l.GetConsistentHash().GetUseSourceIp() }

// hasPort says whether a policy has settings for a port.
func hasPort(policy *networking.TrafficPolicy, port uint32) bool {
	return slices.ContainsFunc(policy.GetPortLevelSettings(), func(p *networking.TrafficPolicy_PortTrafficPolicy) bool { return p.GetPort().GetNumber() == port })
}

// portsNamed lists ports: "port 80", "ports 80, 443".
func portsNamed(ports []uint32) string {
	var out []string
	for _, p := range ports[:min(len(ports), portsShown)] {
		out = append(out, fmt.Sprint(p))
	}
	if more := len(ports) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	if len(out) == 1 {
		return "port " + out[0]
	}
	return "ports " + strings.Join(out, ", ")
}

// checkAffinity warns of clients that a Service is to keep with their pods, as far as no DestinationRule of its namespace, or of the root namespace, does so of their requests.
func (w *world) checkAffinity(r *report, s *corev1.Service) {
	if s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return
	}
	const what = "proxies do not keep clients with their pods by their addresses: any endpoint is asked"
	var lost []uint32
	kept, advice := false, "remove it: of connections that nobody reads no rule says it either"
	for _, p := range s.Spec.Ports {
		switch protocol := w.protocolRead(uint32(p.Port), registry.KubeProtocol(p)); {
		case protocol.IsHTTP() && w.keepsClients(r.of.Namespace, r.of.Name, uint32(p.Port)):
			kept = true
		case protocol.IsHTTP():
			advice = "let a DestinationRule say it of requests (trafficPolicy.loadBalancer.consistentHash.useSourceIp), or remove it"
			lost = append(lost, uint32(p.Port))
		default:
			lost = append(lost, uint32(p.Port))
		}
	}
	switch {
	case !kept:
		r.warn("spec.sessionAffinity", string(s.Spec.SessionAffinity), what, advice)
	case len(lost) > 0:
		r.warn("spec.sessionAffinity", string(s.Spec.SessionAffinity), what+" at "+portsNamed(lost), advice)
	}
}

// keepsClients says whether a DestinationRule for a Service has its requests to a port hashed by who sends them.
func (w *world) keepsClients(ns, name string, port uint32) bool {
	for _, o := range w.rules[host.Name(registry.Ref{Namespace: ns, Name: name}.Host())] {
		rule := o.Spec.(*networking.DestinationRule)
		if len(rule.GetWorkloadSelector().GetMatchLabels()) > 0 || o.Namespace != ns && o.Namespace != w.cfg.RootNamespace {
			continue
		}
		l := rule.GetTrafficPolicy().GetLoadBalancer()
		for _, p := range rule.GetTrafficPolicy().GetPortLevelSettings() {
			if p.GetPort().GetNumber() == port {
				l = p.LoadBalancer
			}
		}
		if byClient(l) {
			return true
		}
	}
	return false
}
