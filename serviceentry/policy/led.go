package policy

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/xds/wire"
)

// led is the verdict of a user's route that hands on: that of the destination which gets the most. Others are told in words. What leaves
// from the pod policies are asked about before a fault answers.
func (a asking) led(svc *registry.Service, port registry.Port, r *resolve.Route, shown resolve.Attempt) Verdict {
	which := most(r.To)
	to := r.To[which]
	fault, refuses := aborted(svc, r)
	if refuses && (to.Closed != nil || !to.Service.Exit.IsZero()) {
		return fault
	}
	if to.Closed != nil {
		v := Verdict{Service: svc, Path: PathBlackhole, Cluster: wire.BlackHoleCluster, DecidedBy: Object{Key: to.Closed.By}, Reason: to.Closed.String()}
		v.Waypoint = a.waypointOf(r)
		return v
	}
	rule := ruleOf(r)
	r.By = to.Service.SourceOf(to.Port)
	var v Verdict
	if to.Service.Exit.IsZero() {
		if by, fronted := a.ledToFronted(r, which, shown); fronted && !refuses {
			v = by
		} else {
			v = a.direct(to.Service, to.Port, r, shown)
		}
		if v.Allowed && refuses {
			return fault.ruledAs(v)
		}
		if v.Allowed {
			v.Cluster = ledTo(svc, to)
		}
		if v.end != nil && v.Waypoint.IsZero() {
			v.end.subset = to.Subset
			if r.HTTP != nil {
				v.end.shown.Request = r.HTTP.Sent(r.Match, which, v.end.shown.Request)
			}
		}
	} else {
		means := ""
		if to.RegisteredBySeveral {
			means = to.Service.Namespace
		}
		if r.HTTP != nil { // the gateway reads what the sidecar sends
			shown.Request = r.HTTP.Sent(r.Match, which, shown.Request)
		}
		v = a.byGateway(to.Service, to.Port, r, shown, means)
	}
	v.Reason += fmt.Sprintf("; led there by %s", rule)
	if n := len(r.To); n > 1 {
		v.Reason += fmt.Sprintf(", as %s of %d destinations", share(r.To, to), n)
	}
	if v.Allowed && v.Waypoint.IsZero() && to.Subset != "" && to.Service.Headless() {
		v.Reason += fmt.Sprintf("; %s is headless, so that the client chose a pod itself: subset %s says nothing", to.Service.Host, to.Subset)
	}
	return v
}

// ledTo is the name of a destination's cluster: of its subset, or, where the proxy speaks TLS at a port that apps speak it at, one of the
// route's.
func ledTo(svc *registry.Service, to resolve.WeightedDestination) string {
	if to.TLS != nil {
		return wire.WrappedCluster(to.Port.Number, svc.Host, to.Service.Host, "")
	}
	return wire.SubsetName(to.Port.Number, to.Subset, to.Service.Host)
}

// most is the number of the destination with the greatest weight, of equals the first that is open.
func most(list []resolve.WeightedDestination) int {
	best := 0
	for i, t := range list {
		if b := list[best]; t.Weight > b.Weight || (t.Weight == b.Weight && b.Closed != nil && t.Closed == nil) {
			best = i
		}
	}
	return best
}

func share(list []resolve.WeightedDestination, of resolve.WeightedDestination) string {
	var sum uint64
	for _, t := range list {
		sum += uint64(t.Weight)
	}
	return fmt.Sprintf("%d %%", (uint64(of.Weight)*100+sum/2)/sum)
}

// ruleOf names the route in its object.
func ruleOf(r *resolve.Route) string {
	return r.By.String() + " " + r.Field
}

// aborted is the verdict of a fault that answers all requests.
func aborted(svc *registry.Service, r *resolve.Route) (Verdict, bool) {
	if r.HTTP == nil || r.HTTP.Abort == nil || r.HTTP.Abort.Share < route.All {
		return Verdict{}, false
	}
	return Verdict{
		Service: svc, Path: PathBlackhole, DecidedBy: Object{r.HTTP.From, r.HTTP.Field + ".fault"},
		Reason: "all requests are aborted, none is sent",
	}, true
}

// answered is the verdict of a user's route that hands nothing on.
func answered(svc *registry.Service, port registry.Port, r *resolve.Route) Verdict {
	v := Verdict{Service: svc, Path: PathBlackhole, DecidedBy: Object{Key: r.By}}
	switch {
	case r.Action == resolve.Unrouted:
		v.DecidedBy.Rule = fmt.Sprintf("ports: %d", port.Number)
		v.Reason = "none of its routes is for this"
	case r.HTTP.Redirect != nil:
		v.DecidedBy.Rule, v.Reason = r.HTTP.Field, fmt.Sprintf("it is answered with a redirect (%d), and nothing is sent", r.HTTP.Redirect.Code)
	default:
		v.DecidedBy.Rule, v.Reason = r.HTTP.Field, fmt.Sprintf("it is answered with status %d, and nothing is sent", r.HTTP.DirectResponse.Status)
	}
	return v
}

// ledUnread is where an egress gateway leads connections that it does not read; nil where they go to the host that they are for.
// Nothing but the destination is known to whoever is there, so policies are asked about that alone.
func (a asking) ledUnread(row *resolve.ExitRow, shown resolve.Attempt) *resolve.WeightedDestination {
	if shown.Kind == resolve.Requests || row == nil || row.GatewayRoutes == nil || !row.LetsIn(a.workload.Namespace) {
		return nil
	}
	r := resolve.FirstMatch(row.Routes(), shown, row.Service.Host)
	if r == nil || r.Action != resolve.Forward || len(r.To) == 0 || r.Audience != nil && !slices.Contains(r.Audience, a.workload.Namespace) {
		return nil
	}
	if to := &r.To[most(r.To)]; to.Closed == nil {
		return to
	}
	return nil
}

// ledAtGateway is the verdict of a user's route at an egress gateway: of the destination that gets the most. What policies were asked
// about the host of a request they are asked about that one, too.
func (a asking) ledAtGateway(v Verdict, r *resolve.Route, what about) Verdict {
	to := r.To[most(r.To)]
	if besides := r.Besides(&to, what.host, what.port); besides != nil && to.Closed == nil {
		v.WouldDeny = nil // what is said last is in the record
		what.host, what.port, what.closed = besides.Service.Host, besides.Port.Number, a.snap.Closed(besides.Service)
		if !a.permitted(&v, what) {
			v.Reason += "; led there by " + ruleOf(r)
			return v
		}
	}
	if fault, refuses := aborted(v.Service, r); refuses {
		v.DecidedBy, v.Reason = fault.DecidedBy, "at the egress gateway "+fault.Reason
		return v
	}
	if to.Closed != nil {
		v.DecidedBy, v.Reason = Object{Key: to.Closed.By}, "the egress gateway sends nothing: "+to.Closed.String()
		return v
	}
	v.Allowed, v.DecidedBy = true, Object{to.Service.SourceOf(to.Port), "hosts: " + to.Service.Host}
	v.Reason = "registered; leaves by the egress gateway; led there by " + ruleOf(r)
	if nobodyAtExit(to.Service, to.Restrictions) {
		v.unanswered(fmt.Sprintf("no endpoint of %s is known that the egress gateway connects to", to.Service.Host), r.HTTP != nil)
	}
	return v
}
