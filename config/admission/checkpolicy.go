package admission

import (
	"strconv"
	"time"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

// judgePolicies judges each policy among the others, and by the mesh's settings.
func (w *world) judgePolicies() (findings []Finding) {
	for _, list := range w.policies {
		for _, p := range list {
			r := &report{of: p.object}
			w.checkRootOnly(r, p.spec)
			w.checkRequired(r, p.spec)
			w.checkEnds(r, p.spec)
			w.checkPolicyNamespaces(r, p.spec)
			w.checkSelected(r, p)
			w.checkPolicyHosts(r, p)
			w.checkUnread(r, p)
			w.checkOrder(r, p)
			w.checkDefault(r, p)
			findings = append(findings, r.findings...)
		}
	}
	return findings
}

// checkRootOnly rejects what only policies of the root namespace can say: other namespaces' policies are for their own workloads,
// narrow what the mesh allows, and never widen it.
func (w *world) checkRootOnly(r *report, p *v1alpha1.EgressPolicy) {
	root := w.cfg.RootNamespace
	if r.of.Namespace == root {
		return
	}
	fix := "remove it, or write the policy into the root namespace " + root
	if p.Namespaces != nil {
		r.reject("spec.namespaces", nil, "a policy of this namespace is for its own workloads", fix)
	}
	for i, rule := range p.Rules {
		if rule.Final {
			r.reject(at("spec.rules", i, "final"), rule.Final, "a policy of this namespace cannot overrule others", fix)
		}
		if rule.Unregistered {
			r.reject(at("spec.rules", i, "unregistered"), rule.Unregistered, "a policy of this namespace cannot let out what nobody registered", fix)
		}
	}
}

// checkRequired rejects rules that allow and do not say what the mesh's settings ask for (sallyport.policy.require).
func (w *world) checkRequired(r *report, p *v1alpha1.EgressPolicy) {
	asks := w.cfg.Policy.Require
	const by = ", and the mesh's settings ask for it of rules that allow (sallyport.policy.require)"
	for i, rule := range p.Rules {
		if rule.Action != v1alpha1.Action_Allow {
			continue
		}
		for _, f := range []struct {
			name    string
			missing bool
			fix     string
		}{
			{"reason", asks.Reason && rule.Reason == "", "write why the rule is there"},
			{"owner", asks.Owner && rule.Owner == "", "write who answers for it"},
			{"ticket", asks.Ticket && rule.Ticket == "", "write where it was decided"},
			{"expires", asks.Expires && rule.Expires == nil, "write until when it is needed, as in " + w.latest(rule)},
		} {
			if f.missing {
				r.reject(at("spec.rules", i, f.name), nil, "it is missing"+by, f.fix)
			}
		}
		if latest := w.begins(rule).Add(asks.Within); asks.Within > 0 && rule.Expires != nil && rule.Expires.AsTime().After(latest) {
			r.reject(at("spec.rules", i, "expires"), moment(rule.Expires.AsTime()), "is later than the mesh's settings allow (sallyport.policy.require)", "write "+w.latest(rule)+" or earlier")
		}
	}
}

// begins is from when on a rule counts that is written now.
func (w *world) begins(rule *v1alpha1.Rule) time.Time {
	if rule.NotBefore != nil && rule.NotBefore.AsTime().After(w.now) {
		return rule.NotBefore.AsTime()
	}
	return w.now
}

// latest is until when a rule may last, in quotes; where nothing bounds it, a month from now is as good an example as any.
func (w *world) latest(rule *v1alpha1.Rule) string {
	within := w.cfg.Policy.Require.Within
	if within == 0 {
		within = 30 * day
	}
	return strconv.Quote(moment(w.begins(rule).Add(within)))
}

const day = 24 * time.Hour
