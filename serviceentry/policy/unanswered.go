package policy

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
)

// What routes and policies let through may find nobody: a Service whose pods are not there yet, a subset whose labels no pod has, an entry that
// selects no workload. It is allowed, and answered by the proxy that would connect.

// tellUnanswered says so of what goes to an end of which the proxy knows no endpoint that it connects to.
func (v *Verdict) tellUnanswered() {
	if e := v.end; !v.Unanswered && !e.anybody() {
		what := e.service.Host
		if e.subset != "" {
			what = fmt.Sprintf("the subset %s of %s", e.subset, what)
		}
		v.unanswered(fmt.Sprintf("no endpoint of %s is known", what), e.shown.Kind == resolve.Requests && e.port.Protocol.IsHTTP())
	}
}

// nodeLocal says whether only pods on the node of whoever connects are asked. In front of a waypoint's pods that is not asked for.
func (e *end) nodeLocal() bool { return e.front == nil && e.service.NodeLocal }

// tellNodeLocal says so where there are some: on which node the client is, or will be, is not looked at.
func (v *Verdict) tellNodeLocal() {
	if e := v.end; !v.Unanswered && e.nodeLocal() {
		v.Reason += fmt.Sprintf("; %s has internalTrafficPolicy: Local, so that only its pods on the node of who connects are asked: where there is none, %s", e.service.Host, fails(e.shown.Kind == resolve.Requests && e.port.Protocol.IsHTTP()))
	}
}

// fails says what becomes of what nobody answers.
func fails(requests bool) string {
	return map[bool]string{true: "requests are answered with 503", false: "connections are closed"}[requests]
}

// unanswered notes that nobody is there, and what becomes of requests, or of connections, until somebody is.
func (v *Verdict) unanswered(why string, requests bool) {
	v.Unanswered = true
	v.Reason += "; " + why + ": until one is, " + fails(requests)
}

// anybody says whether there is an endpoint to connect to, or whether none has to be known: the client's own destination, or a name.
func (e *end) anybody() bool {
	if len(e.endpoints()) > 0 {
		return true
	}
	svc := e.service
	switch {
	case e.entry != nil:
		return false // it connects to endpoints alone
	case svc.Headless():
		return true // the client chose a pod
	case svc.Resolution == registry.Static:
		return false
	default:
		return svc.Tabled() || len(e.part().Labels) == 0 // a subset leads neither to the name nor to where the client goes
	}
}

// part is the subset that is meant; the zero one for all endpoints.
func (e *end) part() registry.Subset {
	host := e.host()
	for _, part := range host.Rule.SubsetsAndAll() {
		if part.Name == e.subset {
			return part
		}
	}
	return registry.Subset{}
}

// nobodyAtExit says whether a host that is found by its endpoints alone has none that a gateway, or the forward proxy, connects to.
func nobodyAtExit(svc *registry.Service, far registry.UpstreamRestrictions) bool {
	return svc.Resolution == registry.Static && !slices.ContainsFunc(svc.Endpoints, func(e registry.Endpoint) bool { return e.Address != "" && far.Leads(e) })
}
