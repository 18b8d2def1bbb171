package policy

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Authorization is what AuthorizationPolicies say of something, at the proxy where they are kept.
type Authorization struct {
	Policies authz.Set
	Asked    *authz.Attempt // nil where there are no policies
	// Ruling is what decides, where one says something, and WouldDeny what would deny it, if dry runs were enforced.
	Ruling, WouldDeny *authz.Ruling
	// Asks is the rule by which an authorizer is asked first, who may deny it: what it answers nobody knows here. nil where none is.
	Asks *authz.Ruling
	// AddressUnknown says that a rule asks for the client's address, which nobody said.
	AddressUnknown bool
}

// Depends says what of requests, or of the client, the word depends on; see authz.Set.
func (a Authorization) Depends() []string {
	if a.Asked == nil {
		return nil
	}
	on := a.Policies.Depends(a.Asked)
	if a.Asks != nil {
		on = append(on, "provider")
	}
	return on
}

// authorized asks the AuthorizationPolicies of a gateway's pods, as it sees what the workload sends. false: v is the denial.
func (a asking) authorized(v *Verdict, gateway registry.Ref, name string, port uint32, spoken egresspolicy.Protocol, r route.Request) bool {
	set := a.snap.AuthorizingExit(gateway)
	return len(set) == 0 || a.authorizedBy(set, v, name, port, spoken, r)
}

func (a asking) authorizedBy(set authz.Set, v *Verdict, name string, port uint32, spoken egresspolicy.Protocol, r route.Request) bool {
	what := &authz.Attempt{
		Domains: a.snap.Mesh.TrustDomains(),
		Client:  ClientOf(a.snap, a.workload.Namespace, a.account()),
		From:    a.workload.Address, Remote: a.workload.Address,
		Authority: authorityThere(name, port, spoken), TLS: spoken == egresspolicy.TLS, Request: requestAsked(spoken, r),
		AddressAsked: r.AddressAsked,
	}
	unknown := noteUnknown(what)
	asks, denied := v.askFirst(a.snap, set, what)
	if denied {
		return false
	}
	open := v.authorize(set, what)
	v.Authorization.Asks = asks
	if v.Authorization.AddressUnknown = unknown.address; !open {
		v.Reason += unknown.words()
	}
	return open
}

// askFirst gives the rule by which an authorizer is asked, if one says so. Where none can be asked, it is denied.
func (v *Verdict) askFirst(s *registry.Snapshot, set authz.Set, what *authz.Attempt) (asks *authz.Ruling, denied bool) {
	r, meant := set.Asking(what)
	if !meant {
		return nil, false
	}
	by, why := resolve.AuthorizerOf(s, set, registry.ClientLocation{}, registry.GivesSecrets)
	if by != nil && what.Request == nil && (what.Port == 0 || !by.GRPC) { // egress gateways ask about connections inside Envoy
		if by.FailOpen {
			return nil, false
		}
		why = "the provider " + by.Name + " can be asked about requests alone"
	}
	if why == "" {
		return &r, false
	}
	v.Authorization = Authorization{Policies: set, Asked: what, Ruling: &r}
	v.Allowed, v.DecidedBy, v.Reason = false, Object{r.Policy.Key, r.RuleName()}, refusal(r)+": "+why
	return nil, true
}

// tellAsked adds to a reason that an authorizer decides.
func (v *Verdict) tellAsked() {
	if r := v.Authorization.Asks; r != nil && v.Allowed {
		v.Reason += "; the provider " + r.Policy.Provider + " is asked first, as " + r.Policy.Key.String() + " wants, and may deny it"
	}
}

// unknownHere is what rules ask for that nobody knows here: the client's address, and where it came to.
type unknownHere struct{ address, destination bool }

// noteUnknown has it noted of what is asked. Who is told already that the address is asked for is told still.
func noteUnknown(what *authz.Attempt) *unknownHere {
	u, tell := &unknownHere{}, what.AddressAsked
	what.AddressAsked = func() {
		if u.address = true; tell != nil {
			tell()
		}
	}
	what.DestinationAsked = func() { u.destination = true }
	return u
}

// words end a reason that depends on it.
func (u *unknownHere) words() (text string) {
	if u.address {
		text += addressUnknown
	}
	if u.destination {
		text += destinationUnknown
	}
	return text
}

// destinationUnknown ends the reason of what a rule closes since nobody can tell where it came to.
const destinationUnknown = "; a rule asks for destination.ip, which is not known here, so that it allows nothing, and denies whatever the address"

// addressUnknown ends the reason of what depends on the client's address.
const addressUnknown = "; a rule asks for the client's address, which is not known here: say it with --address"

// authorityThere is what a gateway is asked for: sidecars leave out the port of requests that go to 80.
func authorityThere(name string, port uint32, spoken egresspolicy.Protocol) string {
	if spoken == egresspolicy.HTTP && port == 80 {
		return name
	}
	if ip, err := netip.ParseAddr(name); err == nil && ip.Is6() || spoken == egresspolicy.HTTP {
		return net.JoinHostPort(name, strconv.FormatUint(uint64(port), 10))
	}
	return name + ":" + strconv.FormatUint(uint64(port), 10)
}

func requestAsked(spoken egresspolicy.Protocol, r route.Request) *authz.Request {
	if spoken != egresspolicy.HTTP {
		return nil
	}
	out := &authz.Request{Method: r.Method, Path: r.Path, Header: headersOf(r), TokenAsked: r.TokenAsked, Claim: r.Claims}
	if r.Unknown != nil && r.Unknown.Path {
		out.PathUnknown = func() { r.PathAsked() }
	}
	return out
}

// authorize takes over what a set says.
func (v *Verdict) authorize(set authz.Set, what *authz.Attempt) bool {
	v.Authorization = Authorization{Policies: set, Asked: what}
	r := set.Enforced().Rule(what)
	if r.Decides {
		v.Authorization.Ruling = &r
	}
	if r.Decides && !r.Allows {
		v.Allowed, v.DecidedBy, v.Reason = false, Object{r.Policy.Key, r.RuleName()}, refusal(r)
		return false
	}
	if would := set.Rule(what); would.Decides && !would.Allows {
		v.Authorization.WouldDeny = &would
	}
	return true
}

// refusal says why a ruling denies.
func refusal(r authz.Ruling) string {
	if r.Rule == nil {
		return fmt.Sprintf("denied by %s: no rule that allows matches", r.Policy.Key)
	}
	return fmt.Sprintf("denied by %s: %s", r.Policy.Key, r.Rule.Name)
}

// The levels at which AuthorizationPolicies are asked: by a gateway, by a Service's waypoint, and by the pod's own proxy.
const (
	levelGateway  = "gateway"
	levelWaypoint = "waypoint"
	levelPod      = "pod"
)

func levelOf(v Verdict) string {
	switch {
	case v.Path == PathInbound:
		return levelPod
	case !v.Waypoint.IsZero():
		return levelWaypoint
	default:
		return levelGateway
	}
}

// steps are the rules that lead to what policies say, in the order in which they are asked.
func (a Authorization) steps(level string) (out []PolicyStep) {
	if a.Asked == nil {
		return nil
	}
	for _, s := range a.Policies.Steps(a.Asked) {
		mode := "Enforce"
		if s.Policy.DryRun {
			mode = "Observe"
		}
		action := map[authz.Action]string{authz.Allow: egresspolicy.Allow.String(), authz.Deny: egresspolicy.Deny.String(), authz.Custom: "Custom", authz.Audit: "Audit"}[s.Policy.Action]
		if s.Rule == nil {
			action = egresspolicy.Deny.String()
		}
		out = append(out, PolicyStep{
			Level: level, Namespace: s.Policy.Key.Namespace, Name: s.Policy.Key.Name, Rule: s.RuleName(), Action: action, Mode: mode,
			Matched: s.Matches, Why: map[bool]string{false: "asks for something else"}[s.Matches], Decides: s.Decides,
		})
	}
	return out
}
