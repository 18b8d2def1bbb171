package translate

import (
	"bytes"

	"github.com/sallyport/sallyport/xds/health"
	"github.com/sallyport/sallyport/xds/resource"
)

// BuildProbe is the view of the machines of a group, which their agents are given: the group's probe, nil for none.
func BuildProbe(probe []byte) *View {
	next, _ := UpdateProbe(emptyView(), nil, probe)
	return next
}

// UpdateProbe makes the next view from the last one, which says what was.
func UpdateProbe(v *View, was, probe []byte) (*View, []resource.Ref) {
	e := newEdit(v)
	switch {
	case bytes.Equal(was, probe):
	case probe == nil:
		e.sets[resource.Probe].Delete(health.ProbeName)
		e.changed[resource.Ref{Type: resource.Probe, Name: health.ProbeName}] = true
	default:
		e.replace(nil, []*resource.Resource{resource.SealBytes(resource.Probe, health.ProbeName, probe)})
	}
	return e.commit()
}
