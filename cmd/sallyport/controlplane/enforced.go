package controlplane

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/source/kube/condition"
	"github.com/sallyport/sallyport/config/source/kube/status"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/xds/serve"
)

// enforceEvery is how often proxies are asked about that do not have all of a policy yet. Where that stays so, the other replicas are asked
// less and less, down to askAtLeast.
const (
	enforceEvery = 500 * time.Millisecond
	askAtLeast   = 8 * time.Second
)

// watchEnforced says in policies' statuses whether the proxies that are connected to the replicas have them, until ctx ends. What all of
// them had once, by the word of a status also that another controller wrote, is not looked at again until the policy says something else: a proxy that
// comes later is given it before it opens.
func (p *plane) watchEnforced(ctx context.Context) error {
	p.updateStatuses(p.forgetEnforced)
	select {
	case <-p.ready: // before that nothing is known
	case <-ctx.Done():
		return nil
	}
	ticks := time.NewTicker(enforceEvery)
	defer ticks.Stop()
	var before map[config.Key]serve.Enforcement
	var next time.Time
	wait := enforceEvery
	for {
		if pending, edited := p.pendingPolicies(); len(pending) > 0 {
			own := p.cache.Enforcing(pending)
			if edited || !maps.Equal(own, before) {
				before, wait, next = own, enforceEvery, time.Time{}
			}
			if now := time.Now(); !now.Before(next) {
				found := p.together(ctx, own)
				p.updateStatuses(func() map[config.Key]status.Details { return p.noteEnforced(found) })
				next, wait = now.Add(wait), min(2*wait, askAtLeast)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// forgetEnforced forgets what was found when this controller led before, and gives the details of the policies of which that was said: what counts is what
// their statuses hold by now.
func (p *plane) forgetEnforced() map[config.Key]status.Details {
	was := p.policies.enforced
	p.policies.enforced = nil
	out := map[config.Key]status.Details{}
	for key := range was {
		if o := p.known.get(key); o != nil {
			out[key] = p.policyDetails(o)
		}
	}
	return out
}

// forgetEdition forgets what was found of a policy that was written: who writes what it said before last has to hear of proxies anew, since they may have had
// something else meanwhile. The caller holds the notes' lock.
func (p *plane) forgetEdition(c config.Change) {
	delete(p.policies.enforced, c.Key)
	if c.Object == nil {
		delete(p.policies.edited, c.Key)
		return
	}
	if p.policies.edited == nil {
		p.policies.edited = map[config.Key]bool{}
	}
	p.policies.edited[c.Key] = true
}

// pendingPolicies are those that not all proxies are known to have, and whether some were written since it was last called. It forgets those that are gone.
func (p *plane) pendingPolicies() (out []config.Key, edited bool) {
	s := p.snapshot.Load()
	p.policies.mu.Lock()
	defer p.policies.mu.Unlock()
	edited, p.policies.edited = len(p.policies.edited) > 0, nil
	there := map[config.Key]bool{}
	for _, ns := range s.PolicedNamespaces() {
		for _, policy := range s.Policies(ns) {
			there[policy.Key] = true
			switch e := p.policies.enforced[policy.Key]; {
			case e.Revision != policy.Revision && p.cluster.statuses.HeldEnforced(policy.Key) == policy.Revision:
			case e.Revision != policy.Revision || !enforcedBy(e):
				out = append(out, policy.Key)
			}
		}
	}
	for key := range p.policies.enforced {
		if !there[key] {
			delete(p.policies.enforced, key)
		}
	}
	return out, edited
}

// enforced is how far this replica's proxies are with each policy, by NAMESPACE/NAME.
func (p *plane) enforced() map[string]serve.Enforcement {
	s := p.snapshot.Load()
	var all []config.Key
	for _, ns := range s.PolicedNamespaces() {
		for _, policy := range s.Policies(ns) {
			all = append(all, policy.Key)
		}
	}
	out := map[string]serve.Enforcement{}
	for key, e := range p.cache.Enforcing(all) {
		out[key.Namespace+"/"+key.Name] = e
	}
	return out
}

func enforcedBy(e enforcing) bool {
	return e.Selected > 0 && e.Selected == e.Current && e.Unheard == "" && e.Absent == ""
}

// noteEnforced takes over how far proxies are, and gives the details of the policies of which that is news.
func (p *plane) noteEnforced(found map[config.Key]enforcing) map[config.Key]status.Details {
	out := map[config.Key]status.Details{}
	for key, e := range found {
		if e.Revision == "" || p.policies.enforced[key] == e || p.policies.edited[key] {
			continue
		}
		if p.policies.enforced == nil {
			p.policies.enforced = map[config.Key]enforcing{}
		}
		p.policies.enforced[key] = e
		if o := p.known.get(key); o != nil {
			out[key] = p.policyDetails(o)
		}
	}
	return out
}

// maxRefusal bounds what is shown of what a proxy says, in bytes.
const maxRefusal = 512

// enforcement is the condition of a policy that proxies are so far with; nil before anybody looked at this version of it.
func enforcement(o *config.Object, e enforcing) *condition.Condition {
	if e.Revision != o.Revision {
		return nil
	}
	c := &condition.Condition{Type: condition.Enforced, Status: "False"}
	so := fmt.Sprintf("%d of the %d proxies that are connected have revision %s", e.Current, e.Selected, e.Revision)
	if e.Selected == 0 {
		so = "no proxy that the policy is for is connected"
	}
	switch {
	case egresspolicy.FromSpec(o, o.Spec.(*v1alpha1.EgressPolicy)).Observe:
		c.Reason, c.Message = "Observed", "mode: Observe denies nothing, what would be denied is recorded"
	case e.Refuses != "":
		c.Reason, c.Message = "Refused", fmt.Sprintf("%s refuses what it was sent, and keeps what it had: %s; %s", e.Refuses, refusal(e.Refusal), so)
	case e.Unheard != "":
		c.Reason, c.Message = "Behind", fmt.Sprintf("the controller %s has not said how far its proxies are; of the others %d of %d have it", e.Unheard, e.Current, e.Selected)
	case e.Absent != "":
		c.Reason, c.Message = "GatewayNotConnected", fmt.Sprintf("the gateway's pod %s takes traffic, and is connected to no controller: see its log; %s", e.Absent, so)
	case e.Selected == 0:
		c.Reason, c.Message = "NoProxies", so
	case !enforcedBy(e):
		c.Reason, c.Message = "Behind", fmt.Sprintf("%s; %s has not", so, e.Behind)
	default:
		c.Status, c.Reason, c.Message = "True", "Enforced", fmt.Sprintf("all %d proxies that are connected have revision %s", e.Selected, e.Revision)
	}
	if e.Endless > 0 && c.Reason != "Observed" {
		c.Message += fmt.Sprintf(". At %d of them nobody may end connections that are open, at %s first: TLS and TCP there go on when they are denied, until either side ends them", e.Endless, e.EndlessAt)
	}
	return c
}

// refusal is what a proxy says, on one line and in quotes: who writes the proxy's words may be anybody.
func refusal(said string) string {
	if said == "" {
		return "its words are about what others wrote, too: the controller's log and `sallyport proxies` have them"
	}
	said = strings.Join(strings.Fields(strings.ToValidUTF8(said, "")), " ")
	if len(said) > maxRefusal {
		said = strings.ToValidUTF8(said[:maxRefusal-3], "") + "..."
	}
	return strconv.Quote(said)
}
