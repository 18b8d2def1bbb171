package simulate

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Sides are the configurations that are compared.
type Sides struct {
	Base, Candidate *registry.Snapshot
	// Revision gives an object's, of the configuration as it is; "" of what is no object there, or has none.
	Revision func(config.Key) string
	Now      time.Time // when is asked what would become of it
}

// quick are the same sides for many questions. Sides that are the same stay so.
func (s *Sides) quick() *Sides {
	out := *s
	out.Base = s.Base.Quick()
	if out.Candidate = out.Base; s.Candidate != s.Base {
		out.Candidate = s.Candidate.Quick()
	}
	return &out
}

// answer is what the sides say of a question.
type answer struct {
	before, after policy.Verdict
	unknown       string // what it depends on and nobody knows
}

// decide asks both sides, as of now.
func (s *Sides) decide(a *asked) answer {
	before, unknown := s.ask(s.Base, a, s.Now)
	after, more := s.ask(s.Candidate, a, s.Now)
	if unknown == "" {
		unknown = more
	}
	return answer{before, after, unknown}
}

// ask asks one side.
func (s *Sides) ask(side *registry.Snapshot, a *asked, at time.Time) (policy.Verdict, string) {
	if a.Class == record.DNS {
		return policy.DecideName(side, a.from, a.Host), ""
	}
	d := a.destination()
	d.At, d.Dialled = at, s.dialled(side, a)
	if a.Reporter == record.ReporterProxy {
		v := policy.DecideForward(side, a.from.Namespace, d)
		return v, d.Unknown.Asked
	}
	v := policy.Decide(side, a.from, d)
	return v, d.Unknown.Asked
}

// dialled is the address that is connected to. It is what was dialled then, unless the workload's DNS answers another one under the candidate.
// Of bytes without a name the log has the host whose address it was, which may have another one now.
func (s *Sides) dialled(side *registry.Snapshot, a *asked) netip.Addr {
	if !a.dialled.IsValid() {
		return a.dialled
	}
	is := a.resolved(s.Base)
	if side != s.Base && a.resolved(side) != is || a.to.Scheme == policy.TCP && is.IsValid() {
		return netip.Addr{}
	}
	return a.dialled
}

// unreproducible says why the outcome that the log has is not what the configuration as it is would have made of it; "" if it is.
func (s *Sides) unreproducible(a *asked, x *inputs.Input) string {
	if x.Class == record.DNS && x.Path != record.PathBlackhole {
		return whyAnswer
	}
	v, _ := s.ask(s.Base, a, x.Last)
	if v.Allowed == (x.Verdict == record.Allowed) {
		return ""
	}
	if x.Verdict == record.Denied && x.DecidedBy.IsZero() {
		return "no object decided it: " + x.Reason
	}
	for _, o := range []*record.Object{&x.DecidedBy, &x.AllowedBy} {
		if why := s.changed(o); why != "" {
			return why
		}
	}
	by := config.Key{Kind: config.Kind(x.DecidedBy.Kind), Namespace: x.DecidedBy.Namespace, Name: x.DecidedBy.Name}
	return fmt.Sprintf("it was %s by %s, and what is in force now says otherwise by %s", x.Verdict, by, v.DecidedBy.Key)
}

// changed says that an object which the log names is another one now; "" where that is not known.
func (s *Sides) changed(o *record.Object) string {
	if o.Kind == "" || o.Revision == "" || config.Kind(o.Kind) == config.KindMeshConfig || config.Kind(o.Kind) == config.KindSidecar {
		return ""
	}
	key := config.Key{Kind: config.Kind(o.Kind), Namespace: o.Namespace, Name: o.Name}
	switch now := s.Revision(key); {
	case now == "":
		return key.String() + " decided it, and is no more"
	case len(now) >= len(o.Revision) && now[:len(o.Revision)] == o.Revision:
		return ""
	default:
		return key.String() + " decided it, and says another thing now"
	}
}
