package admission

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
)

// conditions reads an object's conditions into findings.
type conditions struct {
	*gatewayStatuses
	*report
	said map[string]bool // messages
}

// listener says what is wrong with a listener: the first that is, since what follows of it is told in other conditions again.
func (c *conditions) listener(field string, list []metav1.Condition) {
	clear(c.said) // of each listener by itself
	for _, x := range []struct {
		kind    gatewayv1.ListenerConditionType
		follows string
	}{
		{gatewayv1.ListenerConditionAccepted, "the listener is not opened"},
		{gatewayv1.ListenerConditionResolvedRefs, "nothing that needs it comes in at the listener"},
		{gatewayv1.ListenerConditionProgrammed, ""}, // the message says it
	} {
		if c.say(field, list, string(x.kind), x.follows); len(c.said) > 0 {
			return
		}
	}
}

// say tells of a condition that is False.
func (c *conditions) say(field string, list []metav1.Condition, kind, follows string) {
	i := slices.IndexFunc(list, func(x metav1.Condition) bool { return x.Type == kind && x.Status == metav1.ConditionFalse })
	if i < 0 || list[i].Message == "" {
		return
	}
	place := field
	field, why := fieldOf(place, list[i].Message)
	if strings.HasPrefix(place, "spec.parentRefs[") && field != place {
		follows += ", for " + place
	}
	c.tell(field, nil, why, follows, kind, list[i].Reason)
}

// backend tells of one that gets nothing.
func (c *conditions) backend(b status.Unresolved) {
	unasked := b.Reason == string(gatewayv1.RouteReasonUnsupportedProtocol)
	if unasked && !b.Authorizes() {
		return // the same Service is asked by a filter, which is named
	}
	follows := "what is led there is answered with 500"
	switch {
	case unasked:
		follows = "it is not asked"
	case b.Mirrors():
		follows = "nothing is mirrored there"
	case b.Authorizes():
		follows = "the rule's requests are not let through"
	case slices.Contains([]config.Kind{config.KindTLSRoute, config.KindTCPRoute, config.KindUDPRoute}, c.report.of.Kind):
		follows = "what is led there is closed"
	}
	_, why := fieldOf("", b.Message)
	c.tell("spec."+b.Field(), string(b.Name), why, follows, string(gatewayv1.RouteConditionResolvedRefs), b.Reason)
}

// tell says once what a condition says, what follows from it, and what to do.
func (c *conditions) tell(field string, value any, why, follows, kind, reason string) {
	why, fix := cutFix(why)
	told := c.said[field+why] || slices.ContainsFunc(c.known[c.report.of.Key], func(f Finding) bool {
		return strings.HasPrefix(f.Message, strings.TrimPrefix(why, f.Value+": "))
	})
	c.said[field+why] = true
	if told || !c.wholeFor(reason, why) {
		return
	}
	if follows != "" {
		why += "; " + follows
	}
	c.warn(field, value, why+" ("+kind+": False, "+reason+")", cmp.Or(fix, mends(reason, why)))
}

// fieldOf takes the field that a message begins with, and gives it with its place.
func fieldOf(place, message string) (field, why string) {
	in, rest, cut := strings.Cut(message, ": ")
	switch {
	case !cut || strings.Contains(in, " "):
		return place, message
	case strings.HasPrefix(in, "spec.") || strings.HasPrefix(in, "metadata."):
		return in, rest
	case strings.HasPrefix(place, "spec.parentRefs["): // what a route's own fields are
		return "spec." + in, rest
	default:
		return place + "." + in, rest
	}
}

// cutFix takes what to do from the end of a message, where it says so.
func cutFix(message string) (why, fix string) {
	for i := 0; ; i += len(": ") {
		next := strings.Index(message[i:], ": ")
		if next < 0 {
			return message, ""
		}
		i += next
		switch word, _, _ := strings.Cut(message[i+len(": "):], " "); word {
		case "write", "name", "remove", "set":
			return message[:i], message[i+len(": "):]
		}
	}
}

// class says of a Gateway that is not ours whether anybody may be meant who opens it, as far as the input tells.
func (c *conditions) class(class gatewayv1.ObjectName) {
	const field = "spec.gatewayClassName"
	switch key := (config.Key{Kind: config.KindGatewayClass, Name: string(class)}); {
	case c.s.World().Object(key) != nil:
	case c.has[string(key.Kind)] || strings.HasPrefix(string(class), gatewayapi.DefaultClass):
		c.warn(field, class, "there is no such GatewayClass, and it is none of this control plane's own, so the listeners are not opened by it", "write "+gatewayapi.DefaultClass+", or the name of a GatewayClass")
	case strings.HasPrefix(string(class), "istio"):
		c.note(field, class, "Gateways of this class are Istio's to open, and not this control plane's", "write "+gatewayapi.DefaultClass+" to have it opened here")
	}
}

// wholeFor says whether the input holds what would mend a reason, if it were written there: of a Service, for example, others.
func (c *conditions) wholeFor(reason, why string) bool {
	if _, what, absent := strings.Cut(why, "there is no "); absent {
		kind, what, _ := strings.Cut(what, " ")
		ns, name, _ := strings.Cut(what, "/")
		name, _, _ = strings.Cut(strings.ReplaceAll(name, ",", " "), " ")
		if c.refused(config.Key{Kind: config.Kind(kind), Namespace: ns, Name: name}) {
			return false
		}
		return c.has[kind] && (kind == string(config.KindService) || c.has[kind+" of "+ns])
	}
	switch reason {
	case string(gatewayv1.RouteReasonBackendNotFound):
		switch {
		case strings.Contains(why, "is no Service"):
			return c.has[string(config.KindService)]
		case strings.Contains(why, "is no host"):
			return c.has[string(config.KindServiceEntry)]
		}
	case string(gatewayv1.RouteReasonRefNotPermitted):
		if !strings.Contains(why, "ReferenceGrant") {
			return true
		}
		return c.has[string(config.KindReferenceGrant)] || slices.ContainsFunc(c.objects, func(o config.Object) bool {
			return o.Kind == config.KindService && o.Namespace != c.report.of.Namespace
		})
	case string(gatewayv1.RouteReasonNotAllowedByListeners), string(gatewayv1.ListenerSetReasonNotAllowed):
		return c.has[string(config.KindNamespace)] || !c.asksForLabels()
	}
	return true
}

// asksForLabels says whether a Gateway or a listener lets others in by the labels of their namespaces.
func (c *conditions) asksForLabels() bool {
	by := func(l *gatewayv1.AllowedRoutes) bool {
		return l != nil && l.Namespaces != nil && l.Namespaces.From != nil && *l.Namespaces.From == gatewayv1.NamespacesFromSelector
	}
	return slices.ContainsFunc(c.objects, func(o config.Object) bool {
		switch spec := o.Spec.(type) {
		case *gatewayv1.GatewaySpec:
			sets := spec.AllowedListeners
			return slices.ContainsFunc(spec.Listeners, func(l gatewayv1.Listener) bool { return by(l.AllowedRoutes) }) ||
				sets != nil && sets.Namespaces != nil && sets.Namespaces.From != nil && *sets.Namespaces.From == gatewayv1.NamespacesFromSelector
		case *gatewayv1.ListenerSetSpec:
			return slices.ContainsFunc(spec.Listeners, func(l gatewayv1.ListenerEntry) bool { return by(l.AllowedRoutes) })
		}
		return false
	})
}

// mends says what to do about a reason.
func mends(reason, why string) string {
	switch {
	case strings.HasPrefix(why, "there is no Service"):
		return "write the Service, or name another"
	case strings.Contains(why, "is outside of the mesh"):
		return "name a Service, or a host inside"
	}
	switch reason {
	case string(gatewayv1.RouteReasonBackendNotFound), string(gatewayv1.PolicyReasonTargetNotFound):
		return "write a Service of that name with that port, or name another"
	case string(gatewayv1.RouteReasonInvalidKind):
		return "name a Service"
	case string(gatewayv1.RouteReasonRefNotPermitted):
		return "write a ReferenceGrant in that namespace, or name what is in the object's own"
	case string(gatewayv1.RouteReasonNoMatchingParent):
		return "name a listener that is there, or a port of the Service"
	case string(gatewayv1.RouteReasonNotAllowedByListeners):
		return "let the listener's allowedRoutes take the route's kind and namespace, or name another listener"
	case string(gatewayv1.RouteReasonNoMatchingListenerHostname):
		return "name hosts that a listener has"
	case string(gatewayv1.ListenerSetReasonNotAllowed):
		return "let the Gateway's allowedListeners take the namespace"
	case string(gatewayv1.ListenerReasonProtocolConflict), string(gatewayv1.ListenerReasonPortUnavailable):
		return "write another port"
	case string(gatewayv1.ListenerReasonHostnameConflict):
		return "write another hostname, or another port"
	case string(gatewayv1.ListenerReasonInvalidRouteKinds), string(gatewayv1.ListenerReasonUnsupportedProtocol):
		return "write what listeners of the class and protocol take"
	case string(gatewayv1.PolicyReasonConflicted):
		return "remove one of the two"
	case string(gatewayv1.GatewayReasonAddressNotUsable):
		return "write the name of an egress gateway's Service"
	case string(gatewayv1.ListenerReasonInvalidCertificateRef), string(gatewayv1.GatewayReasonInvalidClientCertificateRef):
		return "name a Secret with tls.crt and tls.key"
	case string(gatewayv1.ListenerReasonInvalidCACertificateRef), string(gatewayv1.ListenerReasonNoValidCACertificate):
		return "name a ConfigMap or a Secret with ca.crt"
	}
	return "correct the field, or remove it"
}
