package suggest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// subject is whom a policy is for: a service account, or an application by a label.
type subject struct{ namespace, account, label, app string }

func (o Options) subjectOf(f *seen.Flow) subject {
	if label, app := f.App(); o.ByApp && app != "" {
		return subject{namespace: f.Namespace, label: label, app: app}
	}
	return subject{namespace: f.Namespace, account: f.Account}
}

func (s subject) compare(o subject) int {
	return cmp.Or(strings.Compare(s.namespace, o.namespace), strings.Compare(s.account, o.account), strings.Compare(s.label, o.label), strings.Compare(s.app, o.app))
}

func (s subject) String() string { return s.namespace + "/" + s.account + s.app }

// governed is what policies say of a subject's workloads today.
type governed struct {
	open, closed bool      // of some of them: what no rule allows is let through, or denied
	observed     bool      // of some, it would be denied, if the policies that are observed were enforced
	all, missing allowance // what they did, and what of it the policies in force have no rule for
	flows, lacks []*seen.Flow
}

// policies makes the EgressPolicies for uses, where s is with what is registered, and a probe.
func (w *world) policies(uses []*use, s *registry.Snapshot, o Options) (out []Change) {
	subjects := map[subject]*governed{}
	for _, u := range uses {
		if u.idle {
			continue
		}
		who := o.subjectOf(u.Flow)
		g := subjects[who]
		if g == nil {
			g = &governed{all: allowance{}, missing: allowance{}}
			subjects[who] = g
		}
		w.govern(g, u, s, o)
	}
	taken := map[config.Key]bool{}
	for _, who := range slices.SortedFunc(maps.Keys(subjects), subject.compare) {
		g := subjects[who]
		switch {
		case who.namespace == w.Snapshot.Mesh.RootNamespace:
			if len(g.all) > 0 {
				w.result.note("no policy is suggested for %s: one in the root namespace would govern the whole mesh", who)
			}
		case g.open && g.closed:
			w.result.note("no policy is suggested for %s: labels tell its workloads apart in policies that are there, and one for all of them would widen those; try --by app", who)
		case g.open && o.Added:
		case g.open && len(g.all) > 0:
			out = append(out, w.policiesFor(who, nil, g.all, g.flows, v1alpha1.Mode_Enforce, s, o, taken)...)
		case g.closed && len(g.missing) > 0:
			mode := v1alpha1.Mode_Enforce
			if g.observed {
				mode = v1alpha1.Mode_Observe
			}
			out = append(out, w.policiesFor(who, w.policyOf(who), g.missing, g.lacks, mode, s, o, taken)...)
		}
	}
	return out
}

// govern notes what is asked about a use, and what the policies in force say of it.
func (w *world) govern(g *governed, u *use, s *registry.Snapshot, o Options) {
	set := w.Snapshot.PolicySet(u.Namespace, u.Account, u.who.Labels)
	action, _ := set.Own.Default()
	closed := action == egresspolicy.Deny
	for _, to := range u.tries {
		v := w.decide(s, u.who, to)
		if v.Asked == nil || !v.Allowed && (v.Ruling == nil || u.wasAllowed()) {
			continue // nobody's to say, or refused for something else
		}
		if wrongName(v.Asked.Host) != "" || v.Service == nil && isInside(u.Host, u.Destinations, w.Snapshot.Mesh.DNS.PrivateFor(u.Namespace)) != "" {
			continue
		}
		r := set.Rule(v.Asked)
		if r.Action == egresspolicy.Deny && (r.Rule != nil || r.Path || r.Unknown || !slices.Contains(set.Own, r.Policy)) {
			if !u.wasAllowed() {
				w.result.leave(u.Flow, meant(r))
			}
			continue
		}
		g.open, g.closed = g.open || !closed, g.closed || closed
		g.all.add(v.Asked, u, o.Paths)
		g.flows = append(g.flows, u.Flow)
		if closed && r.Action == egresspolicy.Deny {
			g.missing.add(v.Asked, u, o.Paths)
			g.lacks = append(g.lacks, u.Flow)
			enforced, _ := set.Own.Enforced().Default()
			g.observed = g.observed || enforced != egresspolicy.Deny
		}
	}
}

// meant says that a ruling is not to be suggested away.
func meant(r egresspolicy.Ruling) string {
	return fmt.Sprintf("denied by %s (%s): what is meant to be denied is not suggested", r.Policy.Key, r.RuleName())
}

// policiesFor makes the policy of a subject, or adds rules to the one that is for it alone; of many rules, several policies.
func (w *world) policiesFor(who subject, was *config.Object, a allowance, flows []*seen.Flow, mode v1alpha1.Mode, s *registry.Snapshot, o Options, taken map[config.Key]bool) (out []Change) {
	notes := a.widen(o.Siblings, func(pattern string) bool {
		return slices.ContainsFunc(s.Services(pattern), func(svc *registry.Service) bool { return svc.External })
	})
	rules := a.rules(o)
	if was != nil {
		spec := proto.CloneOf(was.Spec.(*v1alpha1.EgressPolicy))
		if len(spec.Rules)+len(rules) <= mostRules {
			names := map[string]bool{}
			for _, r := range spec.Rules {
				names[r.Name] = true
			}
			for _, r := range rules {
				r.Name = freeName(r.Name, names)
			}
			spec.Rules = append(spec.Rules, rules...)
			c := Change{Before: was, After: w.object(was.Key, was, spec), Notes: notes, Evidence: lines(flows)}
			if why := Refuses(c.After); why != "" {
				w.result.note("no rules are suggested for %s: admission would refuse them: %s", was.Key, why)
				return nil
			}
			return append(out, c)
		}
	}
	if o.Observe || w.result.Log.Cut[who.namespace] {
		mode = v1alpha1.Mode_Observe
	}
	for part := range slices.Chunk(rules, mostRules) {
		spec := &v1alpha1.EgressPolicy{Mode: mode, Rules: part}
		name := who.account
		if spec.ServiceAccounts = []string{who.account}; who.app != "" {
			name, spec.ServiceAccounts = who.app, nil
			spec.Selector = &v1alpha1.WorkloadSelector{MatchLabels: map[string]string{who.label: who.app}}
		}
		key := w.free(config.KindEgressPolicy, who.namespace, policy.ObjectName(strings.ToLower(name)), taken)
		c := Change{After: w.object(key, nil, spec), Notes: notes}
		if len(out) == 0 {
			c.Evidence = lines(flows)
		}
		if why := Refuses(c.After); why != "" {
			w.result.note("no policy is suggested for %s: admission would refuse it: %s", who, why)
			return nil
		}
		out = append(out, c)
	}
	return out
}

// policyOf is the policy that is there for a subject, and for nobody else; nil without one.
func (w *world) policyOf(who subject) *config.Object {
	for _, key := range w.keys(config.KindEgressPolicy) {
		if key.Namespace != who.namespace || key.Namespace == w.Snapshot.Mesh.RootNamespace {
			continue
		}
		spec := w.objects[key].Spec.(*v1alpha1.EgressPolicy)
		if who.app == "" && spec.Selector == nil && slices.Equal(spec.ServiceAccounts, []string{who.account}) ||
			who.app != "" && len(spec.ServiceAccounts) == 0 && maps.Equal(spec.GetSelector().GetMatchLabels(), map[string]string{who.label: who.app}) {
			return w.objects[key]
		}
	}
	return nil
}

// note says something of the whole, once.
func (r *Result) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.Notes, text) {
		r.Notes = append(r.Notes, text)
	}
}

// covers says whether a need is for a name.
func (n *need) covers(name string) bool {
	return host.Matches(host.Name(n.host), host.Name(name))
}
