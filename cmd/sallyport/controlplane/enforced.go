package controlplane

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/source/kube/condition"
	"github.com/sallyport/sallyport/config/source/kube/status"
	"github.com/sallyport/sallyport/serviceentry/permit"
	"github.com/sallyport/sallyport/xds/serve"
)

// enforceEvery is how often proxies are asked about that do not have all of a policy yet. Where that stays so, the other replicas are asked
// less and less, down to askAtLeast.
const (
	enforceEvery = 500 * time.Millisecond
	askAtLeast   = 8 * time.Second
)

// watchEnforced says in policies' statuses whether the proxies that are connected to the replicas have them, until ctx ends. What all of
// them had once is not looked at again until the policy says something else: a proxy that comes later is given it before it opens.
func (p *plane) watchEnforced(ctx context.Context) error {
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
		if pending := p.pendingPolicies(); len(pending) > 0 {
			own := p.cache.Enforcing(pending)
			if !maps.Equal(own, before) {
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

// pendingPolicies are those that not all proxies are known to have, and forgets those that are gone.
func (p *plane) pendingPolicies() (out []config.Key) {
	s := p.snapshot.Load()
	p.policies.mu.Lock()
	defer p.policies.mu.Unlock()
	there := map[config.Key]bool{}
	for _, ns := range s.PolicedNamespaces() {
		for _, policy := range s.Policies(ns) {
			there[policy.Key] = true
			if e := p.policies.enforced[policy.Key]; e.Revision != policy.Revision || !enforcedBy(e) {
				out = append(out, policy.Key)
			}
		}
	}
	for key := range p.policies.enforced {
		if !there[key] {
			delete(p.policies.enforced, key)
		}
	}
	return out
}

func enforcedBy(e enforcing) bool {
	return e.Selected > 0 && e.Selected == e.Current && e.Unheard == ""
}

// noteEnforced takes over how far proxies are, and gives the details of the policies of which that is news.
func (p *plane) noteEnforced(found map[config.Key]enforcing) map[config.Key]status.Details {
	out := map[config.Key]status.Details{}
	for key, e := range found {
		if e.Revision == "" || p.policies.enforced[key] == e {
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

// enforcement is the condition of a policy that proxies are so far with; nil before anybody looked at this version of it.
func enforcement(o *config.Object, e enforcing) *condition.Condition {
	if e.Revision != o.Revision {
		return nil
	}
	c := &condition.Condition{Type: condition.Enforced, Status: "False"}
	switch {
	case permit.FromSpec(o, o.Spec.(*v1alpha1.EgressPolicy)).Observe:
		c.Reason, c.Message = "Observed", "mode: Observe denies nothing, what would be denied is recorded"
	case e.Unheard != "":
		c.Reason, c.Message = "Behind", fmt.Sprintf("the controller %s has not said how far its proxies are; of the others %d of %d have it", e.Unheard, e.Current, e.Selected)
	case e.Selected == 0:
		c.Reason, c.Message = "NoProxies", "no proxy that the policy is for is connected"
	case !enforcedBy(e):
		c.Reason, c.Message = "Behind", fmt.Sprintf("%d of the %d proxies that are connected have it; %s has not", e.Current, e.Selected, e.Behind)
	default:
		c.Status, c.Reason, c.Message = "True", "Enforced", fmt.Sprintf("all %d proxies that are connected have it", e.Selected)
	}
	return c
}
