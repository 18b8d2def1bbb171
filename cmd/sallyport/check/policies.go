package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// held says whether something other than the pod's own proxy keeps it from the outside.
func (o *Objects) held(p *corev1.Pod) bool { return o.holder(p) != config.Key{} }

// holder is what keeps a pod from the outside beside its own proxy: the node guard, or a NetworkPolicy; the zero Key where
// nothing does.
func (o *Objects) holder(p *corev1.Pod) config.Key {
	if p.Spec.HostNetwork {
		return config.Key{}
	}
	if o.guarded() && guards(o.Guard, o.Namespaces, p) {
		return key("DaemonSet", o.System, o.Guard.Name)
	}
	if limit := o.limit(p); limit != nil {
		return key("NetworkPolicy", limit.Namespace, limit.Name)
	}
	return config.Key{}
}

// Holder asks an API server what keeps a pod from the outside beside its own proxy; the zero Key is for nothing.
func Holder(ctx context.Context, client kubernetes.Interface, system string, p *corev1.Pod) (config.Key, error) {
	o := &Objects{System: system, Namespace: p.Namespace}
	if err := errors.Join(o.readGuard(ctx, client), o.readPolicies(ctx, client), o.readNamespaces(ctx, client)); err != nil {
		return config.Key{}, err
	}
	return o.holder(p), nil
}

// guarded says whether the node guard is on every node.
func (o *Objects) guarded() bool {
	return o.Guard != nil && o.Guard.Status.DesiredNumberScheduled > 0 && o.Guard.Status.NumberReady >= o.Guard.Status.DesiredNumberScheduled
}

// guards says whether a guard with the arguments of this DaemonSet guards a pod.
func guards(guard *appsv1.DaemonSet, namespaces []corev1.Namespace, p *corev1.Pod) bool {
	var selectors string
	var exempt []string
	options := nodeguard.Options{}
	fs := pflag.NewFlagSet("guard", pflag.ContinueOnError)
	fs.ParseErrorsAllowlist.UnknownFlags = true
	fs.StringSliceVar(&options.Namespaces, "namespaces", nil, "")
	fs.StringVar(&selectors, "namespace-selector", nodeguard.DefaultSelectors, "")
	fs.StringArrayVar(&exempt, "exempt", nil, "")
	var args []string
	for _, c := range guard.Spec.Template.Spec.Containers {
		args = append(args, c.Args...)
	}
	var err error
	if fs.Parse(args) != nil {
		return false
	}
	if options.NamespaceSelectors, err = nodeguard.ParseSelectors(selectors); err != nil {
		return false
	}
	for _, text := range append([]string{guard.Namespace}, exempt...) {
		e, err := nodeguard.ParseExemption(text)
		if err != nil {
			return false
		}
		options.Exempt = append(options.Exempt, e)
	}
	labelled := map[string]map[string]string{}
	for _, ns := range namespaces {
		labelled[ns.Name] = ns.Labels
	}
	return options.Guards(nodeguard.Pod{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels}, labelled)
}

// limit is a NetworkPolicy that limits where the pod may connect to; nil for none. They add up: one that opens everything
// outweighs the others (https://kubernetes.io/docs/concepts/services-networking/network-policies/).
func (o *Objects) limit(p *corev1.Pod) *networkingv1.NetworkPolicy {
	var found *networkingv1.NetworkPolicy
	for i := range o.Policies {
		policy := &o.Policies[i]
		if policy.Namespace != p.Namespace || !limitsEgress(policy) {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		if slices.ContainsFunc(policy.Spec.Egress, opens) {
			return nil
		}
		found = policy
	}
	return found
}

func limitsEgress(policy *networkingv1.NetworkPolicy) bool {
	if len(policy.Spec.PolicyTypes) == 0 {
		return len(policy.Spec.Egress) > 0
	}
	return slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
}

// opens says whether a rule lets pods reach the outside at large, for more than DNS.
func opens(rule networkingv1.NetworkPolicyEgressRule) bool {
	if len(rule.Ports) > 0 && !slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
		return p.Port == nil || p.EndPort != nil || p.Port.IntValue() != 53
	}) {
		return false
	}
	return len(rule.To) == 0 || slices.ContainsFunc(rule.To, func(to networkingv1.NetworkPolicyPeer) bool {
		return to.IPBlock != nil && wide(to.IPBlock.CIDR)
	})
}

// wide says whether a block is larger than the largest private one of its family, 10.0.0.0/8 and fc00::/7.
func wide(cidr string) bool {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return false
	}
	if prefix.Addr().Is4() {
		return prefix.Bits() < 8
	}
	return prefix.Bits() < 7
}

// unguarded names the meshed namespaces whose pods nothing holds but their own proxies.
func (s *survey) unguarded() {
	total, free := map[string]int{}, map[string]int{}
	for _, p := range s.running {
		ns := p.pod.Namespace
		if !s.meshed[ns] && proxyOf(p.pod) == nil || ns == s.System || p.pod.Spec.HostNetwork || isStatic(p.pod) {
			continue
		}
		total[ns]++
		if !s.held(p.pod) {
			free[ns]++
		}
	}
	severity, closed := admission.Warning, ""
	if !s.Mesh.OutboundAllowAny {
		severity, closed = admission.Error, ", though the mesh is REGISTRY_ONLY"
	}
	for _, ns := range slices.Sorted(maps.Keys(free)) {
		s.add(severity, key("Namespace", "", ns), "", fmt.Sprintf("%d of %d pods", free[ns], total[ns]),
			"nothing but their own proxies keeps these pods inside: one that gets around its proxy connects as it likes"+closed,
			"limit egress by a NetworkPolicy (the chart's networkPolicies.namespaces), or install the node guard (nodeGuard.enabled)")
	}
}

// guard judges the node guard, where it is installed.
func (s *survey) guard() {
	if s.Guard == nil || s.guarded() {
		return
	}
	s.add(admission.Error, key("DaemonSet", s.System, s.Guard.Name), "status.numberReady",
		fmt.Sprintf("%d of %d", s.Guard.Status.NumberReady, s.Guard.Status.DesiredNumberScheduled),
		"the node guard is not ready on every node: pods of the others are not held", "see kubectl -n "+s.System+" describe daemonset "+s.Guard.Name)
}
