package policy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/serviceentry/tokens"
	"github.com/sallyport/sallyport/xds/wire"
)

// InboundAttempt is a request, or a connection, that comes to a pod.
type InboundAttempt struct {
	Pod  Workload // who gets it: namespace, labels and address say what its proxy does
	Port uint32   // the pod's own
	Node bool     // the pod has no sidecar: its node's proxy stands before it
	// Mutual says that it comes by mutual TLS of the mesh, whose client is Client, a SPIFFE id, and which asks for SNI. Otherwise nobody knows who
	// the client is.
	Mutual bool
	Client string
	SNI    string
	From   netip.Addr   // where from; not valid: nobody knows
	Kind   resolve.Kind // of what is said, inside of mutual TLS if it is that: TLS is the app's own
	// Request is of Requests. Its Claims are those of a token, which somebody has to verify yet.
	Request route.Request
}

// PathInbound is the path of what comes to a pod.
const PathInbound = "inbound"

// DecideInbound says what the pod's own proxy does about it: what PeerAuthentications ask for, which of its bytes are read, and what
// RequestAuthentications and AuthorizationPolicies say.
func DecideInbound(s *registry.Snapshot, a InboundAttempt) Verdict {
	address := ""
	if a.Pod.Address.IsValid() {
		address = a.Pod.Address.String()
	}
	in := resolve.InboundOf(s.Inbound(a.Pod.Namespace, a.Pod.Labels, address))
	if a.Node {
		in = resolve.InboundAtNode(s, a.Pod.Namespace, a.Pod.Labels)
	}
	v := Verdict{Allowed: true, Path: PathInbound, Cluster: wire.InboundPassthrough}
	if in.HasCluster(a.Port) {
		v.Cluster = wire.InboundName(a.Port)
	}
	mode, by := registry.Disable, resolve.MeshPolicy(s)
	if s.Mesh.MutualTLS {
		var said Object
		if mode, said.Key = s.Modes(a.Pod.Namespace, a.Pod.Labels).At(a.Port); said.Name != "" {
			by = said.Key
		}
	}
	v.Mode, v.DecidedBy = mode.String(), Object{by, "mtls: " + mode.String()}
	v.Reason = "comes in: the pod takes whatever comes at this port"
	if !in.Authorized && !s.Mesh.MutualTLS {
		v.Reason = "comes in: the mesh speaks no mutual TLS (sallyport.mutualTLS), so the pod's proxy asks nobody"
	}
	if by, why := resolve.UnsupportedInbound(s, a.Pod.Namespace, a.Pod.Labels); a.Node && why != "" {
		return v.refuse(Object{Key: by}, "the pod is not served, and closed: "+why)
	}
	let := in.Action(a.Port, a.shows())
	mutual := let == resolve.TerminateMutualTLS
	if mutual {
		let = in.Inside(a.Port)
		v.Reason = "comes in by mutual TLS as " + a.Client
	}
	switch {
	case let == resolve.CloseConnection && !in.OnlyMutual(a.Port):
		return v.refuse(v.DecidedBy, fmt.Sprintf("port %d of the pod is known for HTTP, and TLS of the app's own is not that: call the port https where a Service or a ServiceEntry names it", a.Port))
	case let == resolve.CloseConnection:
		return v.refuse(v.DecidedBy, "the pod takes mutual TLS of the mesh only, and this is something else: let the client have a proxy of the mesh, or set the mode PERMISSIVE")
	case let == resolve.ProxyRequests && a.Kind != resolve.Requests:
		return v.refuse(v.DecidedBy, fmt.Sprintf("what leads there says that port %d of the pod is HTTP, and %s is not that", a.Port, spoken(a.Kind)))
	case !in.Authorizes(a.Port):
		return v
	}
	return a.judged(s, v, let == resolve.ProxyRequests, mutual)
}

// shows is how the connection begins.
func (a InboundAttempt) shows() resolve.Transport {
	switch {
	case a.Mutual:
		return resolve.TransportMutualTLS
	case a.Kind == resolve.TLSConnections:
		return resolve.TransportTLS
	default:
		return resolve.TransportPlain
	}
}

// judged asks whoever says which tokens are good, and then policies, about what is read, or about the connection.
func (a InboundAttempt) judged(s *registry.Snapshot, v Verdict, read, mutual bool) Verdict {
	if read {
		rules := s.VerifyingInbound(a.Pod.Namespace, a.Pod.Labels)
		if by, why := verified(rules, &a.Request); why != "" {
			return v.refuse(by, why)
		}
	}
	set := s.AuthorizingInbound(a.Pod.Namespace, a.Pod.Labels)
	if len(set) == 0 {
		return v
	}
	what := &authz.Attempt{
		Domains: s.Mesh.TrustDomains(),
		From:    a.From, Remote: a.From, To: a.Pod.Address, Authority: a.Request.Authority, Port: a.Port, SNI: a.SNI,
	}
	if mutual {
		what.Client = a.Client
	}
	if read {
		what.Request = requestAsked(egresspolicy.HTTP, a.Request)
	}
	return v.judge(s, set, what)
}

// judge asks AuthorizationPolicies: those that have an authorizer asked, those that deny, and those that allow.
func (v Verdict) judge(s *registry.Snapshot, set authz.Set, what *authz.Attempt) Verdict {
	unknown := noteUnknown(what)
	asks, denied := v.askFirst(s, set, what)
	if !denied {
		v.authorize(set, what)
		v.Authorization.Asks = asks
		if r := v.Authorization.Ruling; r != nil && r.Allows {
			v.DecidedBy = Object{r.Policy.Key, r.RuleName()}
			v.Reason += "; allowed by " + r.Policy.Key.String() + ": " + r.RuleName()
		}
	}
	v.Authorization.AddressUnknown = unknown.address
	v.Reason += unknown.words()
	v.tellAsked()
	if !v.Allowed {
		v.Cluster = ""
	}
	return v
}

// refuse is the verdict of what an object closes.
func (v Verdict) refuse(by Object, why string) Verdict {
	v.Allowed, v.Cluster, v.DecidedBy, v.Reason = false, "", by, why
	return v
}

// verified takes a token's claims away where nobody reads them, and says why one is not good.
func verified(set tokens.Set, r *route.Request) (by Object, why string) {
	if r.Claims == nil {
		return by, ""
	}
	rules := set.Rules()
	if len(rules) == 0 {
		r.Claims = nil // nobody looks at it
		return by, ""
	}
	audience := false
	for _, rule := range rules {
		if !slices.Contains(r.Claims([]string{"iss"}), rule.Issuer) {
			continue
		}
		audience = true
		if len(rule.Audiences) == 0 || slices.ContainsFunc(r.Claims([]string{"aud"}), func(a string) bool { return slices.Contains(rule.Audiences, a) }) {
			return by, ""
		}
	}
	why = "401: the token's issuer (claim iss) is none of a jwtRules"
	if audience {
		why = "403: the token is for nobody (claim aud) that the jwtRules of its issuer name"
	}
	return Object{Key: set[0].Key, Rule: "jwtRules"}, why
}
