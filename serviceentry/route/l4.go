package route

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
)

// L4 is a TLSRoute or a TCPRoute: https://istio.io/latest/docs/reference/config/networking/virtual-service/#TLSRoute,
// https://istio.io/latest/docs/reference/config/networking/virtual-service/#TCPRoute
// Of a list of them the first counts that means a connection; one that none means is closed.
type L4 struct {
	From     config.Key
	Revision string `json:",omitempty"`
	Field    string // "tls[0]"

	Matches      []L4Match // any of them; there is at least one
	Destinations []L4Destination
	Closed       *Closed `json:",omitempty"` // as an HTTP's
}

// L4Destination is where connections go.
type L4Destination struct {
	Destination
	Weight uint32 // its part of the sum; at least 1
}

// L4Match is a TLSMatchAttributes or an L4MatchAttributes. All of it has to hold.
type L4Match struct {
	Where
	SNI     []host.Name    `json:",omitempty"` // of which any is meant; of TCP none is said, and all are
	Subnets []netip.Prefix `json:",omitempty"` // where the client connected to is in one of them; none: anywhere
}

// Holds says whether a connection at a place where the match counts is meant.
func (m *L4Match) Holds(r *Request) bool {
	name := func(pattern host.Name) bool { return host.Matches(pattern, host.Name(r.SNI)) }
	within := func(p netip.Prefix) bool { return p.Contains(r.Dialled) }
	return (len(m.SNI) == 0 || slices.ContainsFunc(m.SNI, name)) && (len(m.Subnets) == 0 || slices.ContainsFunc(m.Subnets, within))
}

// Any says whether every connection at its place is meant.
func (m *L4Match) Any() bool { return len(m.SNI) == 0 && len(m.Subnets) == 0 }

// Means says whether the route means a connection.
func (t *L4) Means(r *Request) bool {
	return slices.ContainsFunc(t.Matches, func(m L4Match) bool { return m.At(r.Place) && m.Holds(r) })
}

// JoinL4 is what several objects wrote for one host, in their order; of what is closed, as Join says.
func JoinL4(list []L4) []L4 {
	if i := slices.IndexFunc(list, func(t L4) bool { return t.Closed != nil }); i >= 0 {
		return list[i : i+1 : i+1]
	}
	return list
}

// L4At gives the routes that count at a place, each with the matches that do.
func L4At(routes []L4, p Scope) (out []L4) {
	for _, t := range routes {
		t.Matches = slices.DeleteFunc(slices.Clone(t.Matches), func(m L4Match) bool { return !m.At(p) })
		if len(t.Matches) > 0 {
			out = append(out, t)
		}
		if slices.ContainsFunc(t.Matches, func(m L4Match) bool { return m.Any() }) {
			return out
		}
	}
	return out
}
