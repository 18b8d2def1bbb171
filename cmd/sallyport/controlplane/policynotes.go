package controlplane

import (
	"context"
	"slices"
	"sync"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/kube/condition"
	"github.com/sallyport/sallyport/config/source/kube/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// policyNotes are what is said of policies, rules and routes (admission.Judged) among the other objects, for their statuses. It is found now and then, since
// what is said of one may change with any workload, with any registration, and with time.
type policyNotes struct {
	mu sync.Mutex                         // held while statuses are told, so that what is told last is the newest
	by map[config.Key][]admission.Finding // nil before policies are judged
	// enforced is how far proxies were with policies when they were asked.
	enforced map[config.Key]enforcing
	// edited are the policies that were written since proxies were last asked: what they say is of an edition before that.
	edited map[config.Key]bool
}

// updateStatuses tells the statuses' writer what became of objects.
func (p *plane) updateStatuses(details func() map[config.Key]status.Details) {
	p.policies.mu.Lock()
	defer p.policies.mu.Unlock()
	p.cluster.statuses.Update(details())
}

// policyDetails are what became of a policy. The caller holds the notes' lock.
func (p *plane) policyDetails(o *config.Object) status.Details {
	e := p.policies.enforced[o.Key]
	d := status.Details{
		Revision: o.Revision, Rules: len(o.Spec.(*v1alpha1.EgressPolicy).Rules), Warnings: p.policies.by[o.Key], Unjudged: p.policies.by == nil, Enforced: enforcement(o, e),
	}
	if d.Enforced != nil {
		d.Proxies = &condition.Proxies{Selected: e.Selected, Current: e.Current}
	}
	return d
}

// How often policies are judged: when something moved, and when nothing did.
const (
	judgeEvery  = 15 * time.Second
	judgeAnyway = 10 * time.Minute
)

// judgePolicies keeps the notes until ctx ends. Until they are there, the warnings that statuses hold stay, whoever wrote them.
func (p *plane) judgePolicies(ctx context.Context) error {
	p.updateStatuses(p.forgetNotes)
	select {
	case <-p.ready: // before that nothing is known
	case <-ctx.Done():
		return nil
	}
	ticks := time.NewTicker(judgeEvery)
	defer ticks.Stop()
	type state struct {
		moves uint64
		mesh  *mesh.Config
	}
	var judged state
	var at time.Time
	for {
		now := state{p.known.moves.Load(), p.snapshot.Load().Mesh}
		if now != judged || time.Since(at) >= judgeAnyway {
			judged, at = now, time.Now()
			found := p.known.judgePolicies(*now.mesh, at)
			p.updateStatuses(func() map[config.Key]status.Details { return p.notePolicies(found) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// forgetNotes forgets what was found when this controller led before, and gives the details of all policies, if anything was.
func (p *plane) forgetNotes() map[config.Key]status.Details {
	if p.policies.by == nil {
		return nil
	}
	p.policies.by = nil
	return p.allPolicyDetails()
}

func (p *plane) allPolicyDetails() map[config.Key]status.Details {
	out, s := map[config.Key]status.Details{}, p.snapshot.Load()
	for _, kind := range admission.Judged {
		for _, o := range p.known.of(kind, "") {
			out[o.Key] = p.judgedDetails(s, o)
		}
	}
	return out
}

// judgedDetails are what became of an object of one of the kinds admission.Judged. The caller holds the notes' lock.
func (p *plane) judgedDetails(s *registry.Snapshot, o *config.Object) status.Details {
	if o.Kind == config.KindEgressPolicy {
		return p.policyDetails(o)
	}
	d := status.Details{Warnings: p.policies.by[o.Key], Unjudged: p.policies.by == nil}
	switch o.Kind {
	case config.KindDestinationRule:
		d.Warnings = append(closedBy(s, o.Key, o.Spec.(*networking.DestinationRule)), besides(admission.CrowdedRule(*o, s), d.Warnings)...)
	case config.KindRequestAuthentication:
		d.Warnings = besides(p.unfetchedKeys(s, o.Key), d.Warnings)
	}
	return d
}

// besides gives findings, and those of others that are about other fields.
func besides(found, others []admission.Finding) []admission.Finding {
	out := slices.Clip(found)
	for _, f := range others {
		if !slices.ContainsFunc(found, func(x admission.Finding) bool { return x.Field == f.Field }) {
			out = append(out, f)
		}
	}
	return out
}

// notePolicies takes over what was found, and gives the details of the policies of which something else is said than before.
func (p *plane) notePolicies(found map[config.Key][]admission.Finding) map[config.Key]status.Details {
	before := p.policies.by
	if p.policies.by = found; before == nil {
		return p.allPolicyDetails()
	}
	out, s := map[config.Key]status.Details{}, p.snapshot.Load()
	for _, all := range []map[config.Key][]admission.Finding{before, found} {
		for key := range all {
			if o := p.known.get(key); o != nil && !slices.Equal(before[key], found[key]) {
				out[key] = p.judgedDetails(s, o)
			}
		}
	}
	return out
}

// judgePolicies says what an admission check of all objects does of policies and routes, but for what is only to be known.
func (v *inventory) judgePolicies(cfg mesh.Config, now time.Time) map[config.Key][]admission.Finding {
	var all []config.Object
	some := false
	v.mu.RLock()
	for key, o := range v.objects.All() {
		if judgesPolicies(key.Kind) {
			all = append(all, *o)
			some = some || slices.Contains(admission.Judged, key.Kind)
		}
	}
	v.mu.RUnlock()
	out := map[config.Key][]admission.Finding{}
	if !some {
		return out
	}
	for _, f := range admission.CheckJudged(all, cfg, now) {
		if f.Severity != admission.Info {
			out[f.Key] = append(out[f.Key], f)
		}
	}
	return out
}

// judgesPolicies says whether policies are judged by objects of a kind.
func judgesPolicies(k config.Kind) bool { return slices.Contains(admission.JudgedBy, k) }
