package status

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Class is what is told of a GatewayClass; false where it is not ours.
func Class(s *registry.Snapshot, key config.Key) (gatewayv1.GatewayClassStatus, bool) {
	o := s.World().Object(key)
	if o == nil || key.Kind != config.KindGatewayClass {
		return gatewayv1.GatewayClassStatus{}, false
	}
	spec := o.Spec.(*gatewayv1.GatewayClassSpec)
	if spec.ControllerName != gatewayapi.Controller {
		return gatewayv1.GatewayClassStatus{}, false
	}
	p := gatewayapi.ClassParameters(spec)
	return gatewayv1.GatewayClassStatus{
		Conditions:        []metav1.Condition{condition(string(gatewayv1.GatewayClassConditionStatusAccepted), string(gatewayv1.GatewayClassReasonAccepted), p)},
		SupportedFeatures: gatewayapi.ClassFeatures(key.Name),
	}, true
}

// Gateway is what is told of a Gateway, as far as it follows from what is written; false where it is not ours.
func Gateway(s *registry.Snapshot, key config.Key) (gatewayv1.GatewayStatus, bool) {
	w := s.World()
	o := w.Object(key)
	if o == nil || key.Kind != config.KindKubeGateway || !gatewayapi.IsOurs(w, o.Spec.(*gatewayv1.GatewaySpec).GatewayClassName) {
		return gatewayv1.GatewayStatus{}, false
	}
	var out gatewayv1.GatewayStatus
	var bad []string
	var open openListeners
	listeners := gatewayapi.Listeners(w, o)
	for i := range listeners.Own {
		l := &listeners.Own[i]
		j := judge(s, l)
		open.count(j)
		if j.bad {
			bad = append(bad, l.Name)
		}
		out.Listeners = append(out.Listeners, listener(s, l, j))
	}
	out.AttachedListenerSets = attachedSets(s, listeners, &open)
	accepted := metav1.Condition{Type: string(gatewayv1.GatewayConditionAccepted), Status: metav1.ConditionTrue, Reason: string(gatewayv1.GatewayReasonAccepted)}
	programmed := metav1.Condition{Type: string(gatewayv1.GatewayConditionProgrammed), Status: metav1.ConditionTrue, Reason: string(gatewayv1.GatewayReasonProgrammed)}
	if len(bad) > 0 {
		accepted.Reason, accepted.Message = string(gatewayv1.GatewayReasonListenersNotValid), "listeners that are not valid: "+strings.Join(bad, ", ")
	}
	if why := open.nowhere(); why.Is() {
		programmed.Status, programmed.Reason, programmed.Message = metav1.ConditionFalse, string(gatewayv1.GatewayReasonInvalid), why.Message
	}
	if open.accepted == 0 {
		accepted.Status, programmed.Status, programmed.Reason = metav1.ConditionFalse, metav1.ConditionFalse, string(gatewayv1.GatewayReasonInvalid)
		accepted.Reason, programmed.Message = string(gatewayv1.GatewayReasonListenersNotValid), "no listener is open"
	}
	if p := gatewayapi.Unacceptable(o.Spec.(*gatewayv1.GatewaySpec)); p.Is() {
		accepted = condition(accepted.Type, "", p)
		programmed.Status, programmed.Reason, programmed.Message = metav1.ConditionFalse, string(gatewayv1.GatewayReasonInvalid), p.Message
	}
	if p := gatewayapi.Parameters(o.Spec.(*gatewayv1.GatewaySpec)); p.Is() && accepted.Status == metav1.ConditionTrue {
		accepted = condition(accepted.Type, "", p)
	}
	if spec := o.Spec.(*gatewayv1.GatewaySpec); gatewayapi.IsEgress(spec.GatewayClassName) {
		egressAddress(s, spec, &out, &programmed)
	}
	resolved := condition(string(gatewayv1.GatewayConditionResolvedRefs), string(gatewayv1.GatewayReasonResolvedRefs), clientCertificate(s, w, o))
	out.Conditions = []metav1.Condition{accepted, programmed, resolved}
	if gatewayapi.Unverified(o.Spec.(*gatewayv1.GatewaySpec)) {
		out.Conditions = append(out.Conditions, metav1.Condition{
			Type: string(gatewayv1.GatewayConditionInsecureFrontendValidationMode), Status: metav1.ConditionTrue,
			Reason: string(gatewayv1.GatewayReasonConfigurationChanged), Message: "tls.frontend: clients come in whatever certificate they show, at ports with mode AllowInsecureFallback",
		})
	}
	return out, true
}

// egressAddress tells of an egress Gateway by which Service it is reached, or that there is none.
func egressAddress(s *registry.Snapshot, spec *gatewayv1.GatewaySpec, out *gatewayv1.GatewayStatus, programmed *metav1.Condition) {
	named, _ := gatewayapi.EgressService(spec)
	ref := s.StandsFor(named)
	_, there := s.KubeService(ref)
	switch {
	case programmed.Status != metav1.ConditionTrue:
	case there:
		kind := gatewayv1.HostnameAddressType
		out.Addresses = []gatewayv1.GatewayStatusAddress{{Type: &kind, Value: ref.Host()}}
	case ref.IsZero():
		programmed.Status, programmed.Reason = metav1.ConditionFalse, string(gatewayv1.GatewayReasonAddressNotUsable)
		programmed.Message = "addresses: the mesh has no egress gateway of its own (sallyport.defaultGateway): name one's Service"
	default:
		programmed.Status, programmed.Reason = metav1.ConditionFalse, string(gatewayv1.GatewayReasonAddressNotUsable)
		programmed.Message = "addresses: there is no Service " + ref.String() + ", so nothing leaves by it"
	}
}

// clientCertificate says what is wrong with the one that a Gateway shows to backends.
func clientCertificate(s *registry.Snapshot, w gatewayapi.World, o *config.Object) gatewayapi.Problem {
	key, problem, shows := gatewayapi.ClientCertificate(w, o)
	if !shows || problem.Is() {
		return problem
	}
	if why := pairProblem(s, registry.CredentialRef{Namespace: key.Namespace, Name: key.Name}); why != "" {
		return gatewayapi.Problem{Reason: string(gatewayv1.GatewayReasonInvalidClientCertificateRef), Message: "tls.backend.clientCertificateRef: " + why}
	}
	return gatewayapi.Problem{}
}

// pairProblem says why a Secret holds no certificate with its key.
func pairProblem(s *registry.Snapshot, ref registry.CredentialRef) string {
	c, problem := s.Credential(ref)
	if c != nil && len(c.Key) == 0 {
		return fmt.Sprintf("Secret %s/%s holds no certificate with a key", ref.Namespace, ref.Name)
	}
	return problem
}

// certificates says what is wrong with those that a listener shows.
func certificates(s *registry.Snapshot, l *gatewayapi.Listener) gatewayapi.Problem {
	for _, ref := range l.Certificates {
		if problem := pairProblem(s, registry.CredentialRef{Namespace: ref.Namespace, Name: ref.Name}); problem != "" {
			return gatewayapi.Problem{Reason: string(gatewayv1.ListenerReasonInvalidCertificateRef), Message: "tls.certificateRefs: " + problem}
		}
	}
	return gatewayapi.Problem{}
}

// listenerProblems is what is wrong with a listener: with what it names, and with itself.
type listenerProblems struct {
	refs, unaccepted gatewayapi.Problem
	bad, closed      bool // something is; nothing comes in there
	policed          gatewayapi.Problem
}

// openListeners counts where something could come in, as it is written, and where it does.
type openListeners struct {
	accepted, open int
	policed        gatewayapi.Problem
}

func (n *openListeners) count(j listenerProblems) {
	switch {
	case j.closed:
	case j.policed.Is():
		n.accepted++
		n.policed = j.policed
	default:
		n.accepted++
		n.open++
	}
}

// add counts those of others, too.
func (n *openListeners) add(of openListeners) {
	n.accepted, n.open = n.accepted+of.accepted, n.open+of.open
	if of.policed.Is() {
		n.policed = of.policed
	}
}

// nowhere is why nothing comes in at any listener, though some are right.
func (n *openListeners) nowhere() gatewayapi.Problem {
	if n.open > 0 {
		return gatewayapi.Problem{}
	}
	return n.policed
}

func judge(s *registry.Snapshot, l *gatewayapi.Listener) listenerProblems {
	some, all := clients(s, l)
	j := listenerProblems{refs: first(l.Refs, some, certificates(s, l)), unaccepted: first(l.Unaccepted, all), policed: policed(s, l)}
	j.bad = j.refs.Is() || j.unaccepted.Is() || l.Conflict.Is()
	j.closed = j.unaccepted.Is() || l.Conflict.Is() || certificates(s, l).Is() || l.Refs.Is() && len(l.Certificates) == 0 && l.Refs.Reason != string(gatewayv1.ListenerReasonInvalidRouteKinds)
	return j
}

// clients says what is wrong with those who vouch for a listener's clients: with some, and with all.
func clients(s *registry.Snapshot, l *gatewayapi.Listener) (some, all gatewayapi.Problem) {
	if l.Clients == nil {
		return some, all
	}
	good := 0
	for _, ca := range l.Clients.CAs {
		if c, why := s.Trusted(ca); c == nil {
			some = gatewayapi.Problem{Reason: string(gatewayv1.ListenerReasonInvalidCACertificateRef), Message: "spec.tls.frontend: " + why}
		} else {
			good++
		}
	}
	if good == 0 {
		all = gatewayapi.Problem{Reason: string(gatewayv1.ListenerReasonNoValidCACertificate), Message: first(some, l.Refs).Message}
	}
	return some, all
}

// policed says why nothing comes in at a listener for UDP, though it is accepted.
func policed(s *registry.Snapshot, l *gatewayapi.Listener) gatewayapi.Problem {
	if l.Protocol != gatewayv1.UDPProtocolType {
		return gatewayapi.Problem{}
	}
	if s.Unrefusable() {
		return gatewayapi.Problem{Reason: string(gatewayv1.ListenerReasonInvalid), Message: "protocol: what comes by UDP is not refused where there is no room for its records, as the mesh wants it (sallyport.audit.whenFull: deny), so nothing comes in"}
	}
	gateway, _, _ := gatewayapi.ParseRef(l.Ref)
	policy := s.PolicedGateway(gateway)
	if policy == "" {
		return gatewayapi.Problem{}
	}
	return gatewayapi.Problem{Reason: string(gatewayv1.ListenerReasonInvalid), Message: "protocol: what comes by UDP cannot be held to AuthorizationPolicy " + policy + ", which is for the gateway, so nothing comes in"}
}

func listener(s *registry.Snapshot, l *gatewayapi.Listener, j listenerProblems) gatewayv1.ListenerStatus {
	kinds := l.Kinds
	if kinds == nil {
		kinds = []gatewayv1.RouteGroupKind{}
	}
	conflict := metav1.Condition{Type: string(gatewayv1.ListenerConditionConflicted), Status: metav1.ConditionFalse, Reason: string(gatewayv1.ListenerReasonNoConflicts)}
	if l.Conflict.Is() {
		conflict.Status, conflict.Reason, conflict.Message = metav1.ConditionTrue, l.Conflict.Reason, l.Conflict.Message
	}
	programmed := gatewayapi.Problem{}
	if p := first(j.unaccepted, l.Conflict, j.refs, j.policed); p.Is() {
		programmed = gatewayapi.Problem{Reason: string(gatewayv1.ListenerReasonInvalid), Message: p.Message}
	}
	return gatewayv1.ListenerStatus{
		Name: gatewayv1.SectionName(l.Name), SupportedKinds: kinds, AttachedRoutes: int32(s.Attached(l.Ref)),
		Conditions: []metav1.Condition{
			condition(string(gatewayv1.ListenerConditionAccepted), string(gatewayv1.ListenerReasonAccepted), first(j.unaccepted, l.Conflict)),
			condition(string(gatewayv1.ListenerConditionProgrammed), string(gatewayv1.ListenerReasonProgrammed), programmed),
			condition(string(gatewayv1.ListenerConditionResolvedRefs), string(gatewayv1.ListenerReasonResolvedRefs), j.refs),
			conflict,
		},
	}
}
