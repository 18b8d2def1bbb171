package admission

import (
	"fmt"
	"time"

	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

// expired says whether a rule has ended.
func (w *world) expired(rule *v1alpha1.Rule) bool {
	return rule.Expires != nil && !rule.Expires.AsTime().After(w.now)
}

// endsSoon is how long before its end a rule is spoken of.
const endsSoon = 7 * day

// checkEnds warns of rules that have ended, and tells of those that are about to.
func (w *world) checkEnds(r *report, p *v1alpha1.EgressPolicy) {
	for i, rule := range p.Rules {
		if rule.Expires == nil {
			continue
		}
		field, end := at("spec.rules", i, "expires"), rule.Expires.AsTime()
		switch left := end.Sub(w.now); {
		case left <= 0 && rule.Action == v1alpha1.Action_Allow && p.Default == v1alpha1.Action_Unset:
			r.warn(field, moment(end), "the rule has ended, and what it allowed is denied unless another rule allows it", "write a later time, or remove the rule")
		case left <= 0:
			r.warn(field, moment(end), "the rule has ended", "write a later time, or remove the rule")
		case left <= endsSoon:
			r.note(field, moment(end), fmt.Sprintf("the rule ends in %s", remaining(left)), "write a later time if it is still needed")
		}
	}
}

// remaining writes a length of time in days, or in hours below two days.
func remaining(d time.Duration) string {
	if d < 2*day {
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
