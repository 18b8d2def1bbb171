package resolve

import (
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Besides is the destination that an exit asks policies about besides the host and port that a request is for, where it goes to t: t
// itself, if that is another one, and else where it is mirrored to; nil where there is nothing else.
func (r *Route) Besides(t *WeightedDestination, host string, port uint32) *WeightedDestination {
	if t.elsewhere(host, port) {
		return t
	}
	if i := slices.IndexFunc(r.Mirrors, func(m WeightedDestination) bool { return m.elsewhere(host, port) }); i >= 0 {
		return &r.Mirrors[i]
	}
	return nil
}

// elsewhere says whether something goes to t that is not for it.
func (t *WeightedDestination) elsewhere(host string, port uint32) bool {
	return t.Closed == nil && t.Service != nil && (t.Service.Host != host || t.Port.Number != port)
}

// mirrorOne closes mirrors that policies could not be asked about: an exit asks about one destination besides.
func (r *Route) mirrorOne(host string, port uint32) {
	led := slices.ContainsFunc(r.To, func(t WeightedDestination) bool { return t.elsewhere(host, port) })
	var one *WeightedDestination
	for i := range r.Mirrors {
		m := &r.Mirrors[i]
		switch {
		case !m.elsewhere(host, port):
		case !led && (one == nil || one.Service.Host == m.Service.Host && one.Port.Number == m.Port.Number):
			one = m
		default:
			m.Closed = &registry.ClosedPort{
				By: r.By, Revision: r.Revision, Why: "mirrors: an egress gateway asks policies about one other destination for a request, and " + m.Service.Host + " would be another",
				Fix: "mirror to the host that the request goes to, or lead it to no other",
			}
		}
	}
}
