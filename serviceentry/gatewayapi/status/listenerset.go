package status

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// ListenerSet is what is told of one; false where its Gateway is not ours.
func ListenerSet(s *registry.Snapshot, key config.Key) (gatewayv1.ListenerSetStatus, bool) {
	w := s.World()
	o := w.Object(key)
	if o == nil || key.Kind != config.KindListenerSet {
		return gatewayv1.ListenerSetStatus{}, false
	}
	g, problem := gatewayapi.SetGateway(w, o)
	if g == nil {
		return gatewayv1.ListenerSetStatus{}, false
	}
	var out gatewayv1.ListenerSetStatus
	var bad []string
	var open openListeners
	if !problem.Is() {
		for _, l := range gatewayapi.Listeners(w, g).Of(w, key) {
			j := judge(s, &l)
			if j.bad {
				bad = append(bad, l.Name)
			}
			open.count(j)
			out.Listeners = append(out.Listeners, entry(listener(s, &l, j), &l))
		}
		if open.accepted == 0 {
			problem = gatewayapi.Problem{Reason: string(gatewayv1.ListenerSetReasonListenersNotValid), Message: "no listener is open"}
		}
	}
	accepted := condition(string(gatewayv1.ListenerSetConditionAccepted), string(gatewayv1.ListenerSetReasonAccepted), problem)
	if !problem.Is() && len(bad) > 0 {
		accepted.Reason, accepted.Message = string(gatewayv1.ListenerSetReasonListenersNotValid), "listeners that are not valid: "+strings.Join(bad, ", ")
	}
	programmed := first(problem, open.nowhere())
	out.Conditions = []metav1.Condition{accepted, condition(string(gatewayv1.ListenerSetConditionProgrammed), string(gatewayv1.ListenerSetReasonProgrammed), programmed)}
	return out, true
}

// entry is a listener as ListenerSets tell of it: what another has keeps it from being programmed by that reason.
func entry(l gatewayv1.ListenerStatus, of *gatewayapi.Listener) gatewayv1.ListenerEntryStatus {
	for i := range l.Conditions {
		if c := &l.Conditions[i]; c.Type == string(gatewayv1.ListenerEntryConditionProgrammed) && of.Conflict.Is() {
			c.Reason = of.Conflict.Reason
		}
	}
	return gatewayv1.ListenerEntryStatus(l)
}

// attachedSets counts the ListenerSets of a Gateway that are accepted: those with a listener that is. Where something comes in is counted as far as
// the Gateway asks for it: whether it does anywhere.
func attachedSets(s *registry.Snapshot, listeners *gatewayapi.Opened, open *openListeners) *int32 {
	n := int32(0)
	for _, set := range listeners.Sets {
		var of openListeners
		for i := range set.List {
			if of.count(judge(s, &set.List[i])); of.open > 0 || of.accepted > 0 && open.open > 0 {
				break
			}
		}
		if of.accepted > 0 {
			n++
		}
		open.add(of)
	}
	return &n
}
