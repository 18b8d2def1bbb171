package status

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/kube/condition"
)

// wish is what the status of an object is to hold of ours.
type wish interface {
	// Digest is equal for what is equal, and 0 when nothing is wished for.
	Digest() uint64
	// Over gives what of a held status changes, as a merge patch; nil when it holds all of it.
	Over(held []byte, now time.Time) map[string]any
}

// wishFor is what an object's status is to say; nil when that is not known, or not ours to say.
func wishFor(o *object) wish {
	j, d := o.assessment, o.details
	if j.Resource.Group != condition.Group {
		detailed := j.Key.Kind == config.KindServiceEntry || slices.Contains(admission.Judged, j.Key.Kind)
		if detailed && !o.detailed && j.LastGood {
			return nil
		}
		return istio{wanted(j, d), j.Key.Kind}
	}
	if !o.detailed || j.Refused || d.Standard == nil {
		return nil
	}
	return condition.WantStandard(d.Standard, j.Generation)
}

// istio is the status of one of Istio's objects, or of ours.
type istio struct {
	condition.Status
	kind config.Kind
}

// Over implements wish.
func (i istio) Over(held []byte, now time.Time) map[string]any {
	var has struct {
		Conditions []map[string]any `json:"conditions"`
	}
	_ = json.Unmarshal(held, &has) // a status of another shape is replaced
	conditions, differs := merge(has.Conditions, condition.Parse(held), i.Status, now)
	if !differs {
		return nil
	}
	status := map[string]any{"conditions": conditions}
	switch i.kind {
	case config.KindServiceEntry:
		status["addresses"] = i.Addresses // null, which removes it, when there are none
	case config.KindEgressPolicy:
		status["observedRevision"], status["rules"], status["proxies"] = nil, nil, i.Proxies
		if i.ObservedRevision != "" {
			status["observedRevision"], status["rules"] = i.ObservedRevision, i.Rules
		}
	}
	return status
}
