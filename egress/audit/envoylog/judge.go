package envoylog

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// toldElsewhere says whether another entry tells this better. A tunnel that was handed to an internal listener is logged
// there. What a sidecar handed to a gateway is logged by the gateway, with what it verified, unless the gateway
// was never reached: then nobody else saw it.
func (r *entry) toldElsewhere() bool {
	switch r.tags.role {
	case wire.RoleInner:
		return r.Status == 200 || r.howItWent == "via_upstream" /* it was asked again there */ || r.endedEarly()
	case wire.RoleGateway:
		return !slices.Contains(wire.AnsweredLocally, r.howItWent) && r.Status == 200 || r.howItWent == "via_upstream" || r.waitedFor() // the gateway took it, or said no itself
	default:
		return false
	}
}

// waitedFor says whether a request was sent to a gateway, and its client, or the sidecar for it, waited no longer for the answer.
func (r *entry) waitedFor() bool {
	brokeOff := func(f string) bool { return slices.Contains([]string{"UC", "UF", "UH", "UO", "UR", "URX"}, f) } // somebody else did
	return r.sentOn && r.givenUp() && !slices.ContainsFunc(r.Flags, brokeOff)
}

// givenUp says whether who asks ended it: the client, or a time limit.
func (r *entry) givenUp() bool {
	return slices.ContainsFunc(r.Flags, func(f string) bool { return f == "DC" || f == "DR" || f == "UT" || f == "SI" })
}

// endedEarly says whether an internal listener took a tunnel and ended it before the client was told that it is open. One
// that is not there is an immediate error.
func (r *entry) endedEarly() bool {
	return slices.Contains(r.Flags, "UC") || strings.Contains(r.howItWent, "delayed_connect_error")
}

// wentWrong says whether it did not come to what was decided, or to its end. A server that ends the connection of something upgraded does what
// servers do then.
func (r *entry) wentWrong() bool {
	for _, f := range r.Flags {
		switch f {
		case "UH", "UF", "UO", "NC", "URX", "UT", "LR", "UR", "DF", "OM", "UPE":
			return true
		case "UC":
			if r.Class == record.HTTP && r.Status != http.StatusSwitchingProtocols && r.Method != http.MethodConnect {
				return true
			}
		}
	}
	return false
}

// judge fills in what was decided, by what, and why; details are Envoy's about the end of it.
func (r *entry) judge(details string) {
	role, policy, config := r.tags.role, r.tags.policy, r.tags.config
	r.Verdict, r.Direction = record.Allowed, record.Outbound
	switch {
	case r.forbid(details):
	case r.deniedToken(details):
	case r.deniedByAuthorizer(details):
	case strings.HasPrefix(details, "rbac_access_denied"):
		r.deny(r.pathDenied(), r.whyDenied())
		if r.DecidedBy = record.ParseObject(config); r.DecidedBy == (record.Object{}) {
			r.DecidedBy = record.ParseObject(policy) // of a row that leads nowhere
		}
	case r.Route == wire.NotExportedRoute:
		r.deny(r.pathDenied(), "registered, but not exported to this namespace")
		r.DecidedBy = record.ParseObject(policy)
	case slices.Contains(r.Flags, "OM"):
		r.deny(r.pathDenied(), "the proxy takes nothing new: its memory is full, or there is no room for its audit records")
	case details == wire.TooManyDetails && !r.sentOn:
		r.deny(r.pathDenied(), notKept)
	case r.tags.handshake != "":
		r.deny(r.pathDenied(), handshakeProblem(r.tags.handshake))
	case r.unread(role):
		r.deny(r.pathDenied(), "what came is no request that the proxy reads, so that it went nowhere")
	case r.undecided(role):
		r.deny(record.PathBlackhole, "it ended before it was decided where it goes")
	case r.Route == wire.WrongProtocolRoute:
		r.deny(r.pathDenied(), "the port is registered with another protocol")
		r.DecidedBy = record.ParseObject(policy)
	case r.Route == wire.LoopRoute:
		r.deny(r.pathDenied(), "the request came back: the host leads to the proxy itself")
	case strings.HasPrefix(r.Route, wire.ClosedRoute):
		r.deny(r.pathDenied(), strings.TrimPrefix(r.Route, wire.ClosedRoute))
		r.Route = closed
		r.DecidedBy = record.ParseObject(policy)
	case r.Route == "" && slices.Contains(r.Flags, "NR"):
		r.deny(r.pathDenied(), "the host takes no such request")
	case r.Route == wire.NoRoute:
		r.deny(r.pathDenied(), "none of the routes is for it")
		r.DecidedBy = record.ParseObject(policy)
	case userRoute(policy) && slices.Contains(wire.AnsweredLocally, details):
		r.deny(r.pathDenied(), "answered by a route, nothing was sent: "+details)
		r.DecidedBy = record.ParseObject(policy)
	case userRoute(policy) && role == wire.RoleBlackhole:
		r.deny(r.pathDenied(), "a destination of the route leads nowhere")
		r.DecidedBy = record.ParseObject(policy)
	case r.Route == wire.MadeUpRoute:
		r.deny(record.PathBlackhole, madeUpReason)
		r.DecidedBy = record.ParseObject(policy)
	case r.Route == wire.BlockAllRoute || role == wire.RoleBlackhole || r.Cluster == wire.BlackHoleCluster:
		r.deny(record.PathBlackhole, "not registered")
		r.DecidedBy = record.ParseObject(policy)
		if r.Route == "" && (r.place == wire.GatewayTLS || r.place == wire.ForwardTLS) {
			r.Reason = "what came was not TLS, or gave no name"
		}
	case role == wire.RolePassthrough && madeUp(r.Destination):
		r.deny(record.PathBlackhole, madeUpReason)
		r.DecidedBy = record.ParseObject(policy)
	case r.Route == wire.ClusterRoute:
		r.Direction = record.Lateral
		r.Path, r.Reason, r.DecidedBy = record.PathPassthrough, "an address of the cluster's own networks", record.ParseObject(policy)
	case role == wire.RolePassthrough:
		r.Path, r.Reason, r.DecidedBy = record.PathPassthrough, "not registered; ALLOW_ANY", record.ParseObject(policy)
	case role == wire.RoleGateway:
		r.Path, r.Reason = record.PathGateway, "the gateway could not be reached"
	case role == wire.RoleWaypoint:
		r.Path, r.Reason, r.DecidedBy = record.PathGateway, "registered; by its waypoint", record.ParseObject(config)
	case role == wire.RoleMesh:
		r.Direction, r.Path, r.DecidedBy = record.Lateral, record.PathMesh, record.ParseObject(config)
	default:
		r.Path, r.Reason, r.DecidedBy = record.PathGateway, "registered", record.ParseObject(config)
		if r.Reporter == record.ReporterSidecar {
			r.Path = record.PathDirect
		}
	}
	switch {
	case r.comesIn():
		r.judgeIngress(policy)
	case r.Reporter == record.ReporterDestination:
		r.judgeInbound()
	}
	byRule := r.DecidedBy.Kind == wire.EgressPolicy && r.DecidedBy.Rule != "" // which says its own, or none
	if r.DecidedBy != (record.Object{}) && r.DecidedBy.Revision == "" && !byRule {
		r.DecidedBy.Revision = revision(r.tags.revision)
	}
	r.nameByCluster()
	if r.Verdict != record.Allowed {
		return
	}
	r.tellRules()
	if why, is := strings.CutPrefix(details, wire.EndedDetails); is {
		if plain, err := url.QueryUnescape(why); err == nil {
			why = plain
		}
		r.Reason += "; " + EndedReason + why
	}
	if slices.Contains(r.Flags, "UMSDR") { // which nothing else brings about
		r.Reason += "; ended when the rule that allowed it did"
	}
	if r.Class == record.HTTP && r.Status == 0 && r.givenUp() {
		r.Reason += "; its client left before there was an answer"
	}
	if details == wire.TooManyDetails {
		r.Reason += "; its answer was kept back: " + notKept
	}
	if r.wentWrong() {
		r.Reason += "; failed: " + failure(r.Flags, details)
	}
}

// closed is the route of what one closes, whose name says why (wire.ClosedRoute).
const closed = "closed"

// notKept is why a request ends that its agent takes no note of (wire.TooManyDetails).
const notKept = "the proxy's agent could not keep an eye on it: too much is under way, or its host or path is too long"

// revision reads that of the row, else that of the cluster: Envoy writes one after the other, and "-" for what is not there.
func revision(text string) string {
	text = strings.TrimLeft(text, "-")
	if len(text) < wire.RevisionDigits {
		return ""
	}
	return text[:wire.RevisionDigits]
}

// userRoute says whether a row is of a user's routes.
func userRoute(policy string) bool { return strings.HasPrefix(policy, "VirtualService/") }

// undecided says whether a connection that is asked about had no answer.
func (r *entry) undecided(role string) bool {
	switch r.place {
	case wire.InboundTCP:
		return r.tags.authority != "" && role == "" && r.Cluster == "" && r.Route == "" // of a waypoint, which asks about what goes outside
	case wire.SidecarTunnel, wire.GatewayTLS, wire.GatewayTCP, wire.IngressTLS, wire.IngressTCP:
		return role == "" && r.Cluster == "" && r.Route == "" && !slices.Contains(r.Flags, "NC")
	default:
		return false
	}
}

// unread says whether a request was answered before anything was decided about it: it breaks HTTP's rules, or is larger than the proxy reads.
func (r *entry) unread(role string) bool {
	return r.Class == record.HTTP && role == "" && r.Cluster == "" && r.Route == "" && !slices.Contains(r.Flags, "NR") && !slices.Contains(r.Flags, "NC") &&
		(r.Status/100 == 4 || slices.Contains(r.Flags, "DPE")) // 501 is what another coding of the body is answered with
}

const madeUpReason = "the host is registered, but not like this, and its address is made up: ALLOW_ANY leads nowhere"

// The ranges of addresses that the control plane makes up for hosts without one; Istio's. Nothing is there.
var (
	madeUp4 = netip.MustParsePrefix("240.240.0.0/16")
	madeUp6 = netip.MustParsePrefix("2001:2::/48")
)

func madeUp(destination string) bool {
	a, err := netip.ParseAddrPort(destination)
	return err == nil && (madeUp4.Contains(a.Addr().Unmap()) || madeUp6.Contains(a.Addr()))
}

func (r *entry) deny(path, reason string) {
	r.Verdict, r.Path, r.Reason = record.Denied, path, reason
}

// nameByCluster gives a connection that was told by its address the name of the host that owns it, which is in the
// cluster's: "outbound|5432||db.example.com".
func (r *entry) nameByCluster() {
	if r.Reporter != record.ReporterSidecar && r.place != wire.IngressTCP && r.place != wire.IngressUDP {
		return
	}
	if _, err := netip.ParseAddr(r.Host); err != nil {
		return
	}
	parts := strings.Split(r.Cluster, "|")
	if len(parts) == 4 && parts[0] == "outbound" && !strings.HasPrefix(parts[3], "*") && (r.Path != record.PathGateway || r.tags.role == wire.RoleWaypoint) {
		r.Host = parts[3]
	}
}

func (r *entry) pathDenied() string {
	if r.Reporter == record.ReporterSidecar {
		return record.PathBlackhole
	}
	return record.PathGateway
}

// whyDenied tells the two checks apart: of the name inside a tunnel, and of who the client is.
func (r *entry) whyDenied() string {
	if r.place == wire.GatewayTLS || r.place == wire.ForwardTLS {
		return "the TLS name " + quoteEmpty(r.SNI) + " is not the host " + quoteEmpty(r.Host) + " that was asked for"
	}
	return "registered, but not exported to this namespace"
}

func quoteEmpty(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

func failure(flags []string, details string) string {
	if details != "" && details != "-" {
		return details
	}
	return strings.Join(flags, ",")
}
