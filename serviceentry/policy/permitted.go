package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// policies are all that govern the workload.
func (a asking) policies() egresspolicy.Set {
	return a.snap.PolicySet(a.workload.Namespace, a.account(), a.workload.Labels)
}

// account is the workload's: as it is said, or that of the workloads which are known by these labels, if it is one.
func (a asking) account() string {
	if a.workload.Account != "" {
		return a.workload.Account
	}
	found := ""
	for _, p := range a.snap.People(a.workload.Namespace) {
		if !carries(p.Labels, a.workload.Labels) {
			continue
		}
		if found != "" && found != p.Account {
			return "default"
		}
		found = p.Account
	}
	if found == "" {
		return "default"
	}
	return found
}

func carries(has, wanted map[string]string) bool {
	for k, v := range wanted {
		if has[k] != v {
			return false
		}
	}
	return len(wanted) > 0
}

// about is what a proxy's policies are asked about.
type about struct {
	host     string
	port     uint32
	protocol egresspolicy.Protocol
	request  route.Request
	at       time.Time
	closed   *egresspolicy.Policy // as egresspolicy.Attempt has it
}

func (q about) asked() *egresspolicy.Attempt {
	r := q.request
	path, _, _ := strings.Cut(r.Path, "?")
	if q.at.IsZero() {
		q.at = time.Now()
	}
	asked := &egresspolicy.Attempt{
		Host: q.host, Port: q.port, Protocol: q.protocol, Method: r.Method, Path: path, At: q.at, Header: headersOf(r), Closed: q.closed,
	}
	if r.Unknown != nil && r.Unknown.Path {
		asked.PathUnknown = func() { r.PathAsked() }
	}
	return asked
}

// headersOf finds a request's headers.
func headersOf(r route.Request) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		r.HeaderAsked(name)
		values, has := r.Headers[name]
		return strings.Join(values, ","), has
	}
}

// spokenAs is how they call what a proxy sees.
func spokenAs(k resolve.Kind) egresspolicy.Protocol {
	return [...]egresspolicy.Protocol{resolve.Connections: egresspolicy.TCP, resolve.TLSConnections: egresspolicy.TLS, resolve.Requests: egresspolicy.HTTP}[k]
}

// spokenThere is how they call what a gateway sees: it reads TLS that was registered so, and of patterns, whose hosts it cannot tell apart
// otherwise.
func spokenThere(k resolve.Kind, svc *registry.Service, port registry.Port) egresspolicy.Protocol {
	if k == resolve.TLSConnections && port.Protocol != registry.TLS && !svc.Wildcard() {
		return egresspolicy.TCP
	}
	return spokenAs(k)
}

// permitted asks the workload's policies, where v is where it would go otherwise. false: v is the denial.
func (a asking) permitted(v *Verdict, q about) bool {
	set := a.policies()
	if set.Empty() && q.closed == nil {
		return true
	}
	return v.permit(set, q.asked())
}

// permit takes over what a set says.
func (v *Verdict) permit(set egresspolicy.Set, what *egresspolicy.Attempt) bool {
	v.Asked, v.Policies = what, set
	kept := set.Enforced()
	r := kept.Rule(what)
	if r.Action == egresspolicy.Deny {
		v.Allowed, v.DecidedBy, v.Reason, v.Ruling = false, Object{r.Policy.Key, r.RuleName()}, denial(r), &r
		return false
	}
	if r.Action == egresspolicy.Allow && r.Policy != nil {
		v.Ruling = &r
	}
	if set.Observes() {
		if would := set.Rule(what); would.Action == egresspolicy.Deny {
			v.WouldDeny = &would
		}
	}
	return true
}

// ruledAs is the verdict with what policies say of another one.
func (v Verdict) ruledAs(o Verdict) Verdict {
	v.Ruling, v.WouldDeny, v.Asked, v.Policies = o.Ruling, o.WouldDeny, o.Asked, o.Policies
	return v
}

// denial says why a ruling denies.
func denial(r egresspolicy.Ruling) string {
	var why string
	switch {
	case r.Unregistered:
		return "nobody registered the host, and no rule with unregistered: true lets this workload out to it; REGISTRY_ONLY closes it"
	case r.Unknown:
		why = "it selects by labels, and nobody knows the workload's"
	case r.Path:
		why = fmt.Sprintf("the path is not in normal form, and servers may take it for one that rule %s is about", r.Rule.Name)
	case r.Rule == nil:
		why = "none of its rules allows this"
	default:
		why = "rule " + r.Rule.Name
		if r.Rule.Reason != "" {
			why += ": " + r.Rule.Reason
		}
		if r.Rule.Owner != "" {
			why += " (owner: " + r.Rule.Owner + ")"
		}
	}
	return fmt.Sprintf("denied by %s: %s", r.Policy.Key, why)
}
