package status

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// maxAncestors is how many a policy's status has at most, by the API's schema.
const maxAncestors = 16

// BackendTLS is what is told of a BackendTLSPolicy, for each Gateway of ours whose routes lead to a Service that it is for; false where it
// is none.
func BackendTLS(s *registry.Snapshot, key config.Key) (gatewayv1.PolicyStatus, bool) {
	o := s.World().Object(key)
	if o == nil || key.Kind != config.KindBackendTLSPolicy {
		return gatewayv1.PolicyStatus{}, false
	}
	by := map[config.Key][]gatewayapi.Problem{} // of Gateways: what is wrong with each part that counts there
	var gateways []config.Key
	var refs, unaccepted gatewayapi.Problem
	services := map[gatewayv1.ObjectName]bool{}
	for _, t := range o.Spec.(*gatewayv1.BackendTLSPolicySpec).TargetRefs {
		if services[t.Name] {
			continue
		}
		services[t.Name] = true
		ref := registry.Ref{Namespace: key.Namespace, Name: string(t.Name)}
		for _, p := range gatewayapi.BackendTLSOf(o, ref.Name) {
			refs, unaccepted = trust(s, p)
			problem := first(target(s, ref, p), unaccepted)
			for _, g := range s.LedFromGateways(ref.Host()) {
				gateways, by[g] = append(gateways, g), append(by[g], problem)
			}
		}
	}
	slices.SortFunc(gateways, config.Key.Compare)
	gateways = slices.Compact(gateways)
	out := gatewayv1.PolicyStatus{Ancestors: []gatewayv1.PolicyAncestorStatus{}}
	for _, g := range gateways[:min(len(gateways), maxAncestors)] {
		out.Ancestors = append(out.Ancestors, gatewayv1.PolicyAncestorStatus{
			AncestorRef: gatewayv1.ParentReference{
				Group: new(gatewayv1.Group(gatewayv1.GroupName)), Kind: new(gatewayv1.Kind("Gateway")),
				Namespace: new(gatewayv1.Namespace(g.Namespace)), Name: gatewayv1.ObjectName(g.Name),
			},
			ControllerName: gatewayapi.Controller,
			Conditions: []metav1.Condition{
				condition(string(gatewayv1.PolicyConditionAccepted), string(gatewayv1.PolicyReasonAccepted), first(by[g]...)),
				condition(string(gatewayv1.BackendTLSPolicyConditionResolvedRefs), string(gatewayv1.BackendTLSPolicyReasonResolvedRefs), refs),
			},
		})
	}
	return out, true
}

// trust says what is wrong with whom a policy trusts: with some of it, and with all.
func trust(s *registry.Snapshot, p *gatewayapi.BackendTLS) (some, all gatewayapi.Problem) {
	some, good := p.Refs, 0
	for _, ca := range p.CAs {
		if c, why := s.Trusted(ca); c == nil {
			some = first(some, gatewayapi.Problem{Reason: string(gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef), Message: "validation.caCertificateRefs: " + why})
		} else {
			good++
		}
	}
	if len(p.CAs) > 0 && good == 0 {
		all = gatewayapi.Problem{Reason: string(gatewayv1.BackendTLSPolicyReasonNoValidCACertificate), Message: some.Message}
	}
	return some, first(p.Unaccepted, all)
}

// target says why a policy does not count for a Service that it names.
func target(s *registry.Snapshot, ref registry.Ref, p *gatewayapi.BackendTLS) gatewayapi.Problem {
	if !s.Secured(ref).Counts(p) {
		return gatewayapi.Problem{Reason: string(gatewayv1.PolicyReasonConflicted), Message: fmt.Sprintf("targetRefs: another policy that takes precedence is for Service %s, too", ref.Name)}
	}
	k, there := s.KubeService(ref)
	if !there || p.Section != "" && !slices.ContainsFunc(k.Ports, func(port registry.Port) bool { return port.Name == p.Section }) {
		return gatewayapi.Problem{Reason: string(gatewayv1.PolicyReasonTargetNotFound), Message: fmt.Sprintf("targetRefs: there is no Service %s with what is named of it", ref.Name)}
	}
	return gatewayapi.Problem{}
}
