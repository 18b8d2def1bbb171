package egresspolicy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

// FromSpec makes a policy of an object that admission accepted.
func FromSpec(o *config.Object, spec *v1alpha1.EgressPolicy) *Policy {
	p := &Policy{
		Key: o.Key, Revision: o.Revision, Created: o.Created, Observe: spec.Mode == v1alpha1.Mode_Observe, Default: actionOf(spec.Default),
		Selector: Selector{Labels: spec.GetSelector().GetMatchLabels(), Accounts: slices.Sorted(slices.Values(spec.ServiceAccounts))},
	}
	if n := spec.Namespaces; n != nil {
		p.Namespaces = &Namespaces{Names: n.Names, Labels: n.MatchLabels}
	}
	for i, r := range spec.Rules {
		p.Rules = append(p.Rules, ruleOf(i, r))
	}
	return p
}

func ruleOf(i int, r *v1alpha1.Rule) Rule {
	out := Rule{
		Name: r.Name, Ports: r.Ports, Methods: r.Methods, Paths: r.Paths, Action: actionOf(r.Action),
		From: timeOf(r.NotBefore), Until: timeOf(r.Expires), Reason: r.Reason, Owner: r.Owner, Final: r.Final, Unregistered: r.Unregistered,
	}
	if out.Name == "" {
		out.Name = fmt.Sprintf("rules[%d]", i)
	}
	for _, h := range r.Hosts {
		out.Hosts = append(out.Hosts, strings.ToLower(strings.TrimSuffix(h, ".")))
	}
	for _, p := range r.Protocols {
		out.Protocols = append(out.Protocols, Protocol(p))
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, Header{strings.ToLower(h.Name), h.Value})
	}
	return out
}

func actionOf(a v1alpha1.Action) Action {
	return map[v1alpha1.Action]Action{v1alpha1.Action_Allow: Allow, v1alpha1.Action_Deny: Deny}[a]
}

func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
