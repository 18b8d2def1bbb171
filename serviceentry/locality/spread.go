package locality

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/localities"
)

// Client is who asks. It is comparable; the zero value is one of whom nothing is known, or need be.
type Client struct {
	Locality string // "REGION/ZONE/SUBZONE"; "" where nobody says
	Node     string // that it runs on
	Network  string
	// Labels are those of its labels that settings ask about: "k=v,k=v", in order of the keys.
	Labels string
}

// label gives one of the client's, or what stands for where it is.
func (c Client) label(key string) string {
	if at := (Place{Locality: c.Locality, Node: c.Node, Network: c.Network}).Label(key); at != "" {
		return at
	}
	for pair := range strings.SplitSeq(c.Labels, ",") {
		if k, v, _ := strings.Cut(pair, "="); k == key {
			return v
		}
	}
	return ""
}

// Only is those of its labels whose keys are given.
func (c Client) Only(keys []string) string {
	var out []string
	for pair := range strings.SplitSeq(c.Labels, ",") {
		if key, _, has := strings.Cut(pair, "="); has && slices.Contains(keys, key) {
			out = append(out, pair)
		}
	}
	return strings.Join(out, ",")
}

// Setting is a localityLbSetting that counts.
type Setting struct {
	Distribute []*networking.LocalityLoadBalancerSetting_Distribute
	Failover   []*networking.LocalityLoadBalancerSetting_Failover
	Priority   []string // failoverPriority
}

// Of is the setting that counts of one that is written; nil where it changes nothing. fails says that endpoints which fail are noticed, without
// which there is nothing to fail over from.
func Of(in *networking.LocalityLoadBalancerSetting, fails bool) *Setting {
	switch {
	case in == nil || in.Enabled != nil && !in.Enabled.Value:
		return nil
	case len(in.Distribute) > 0:
		return &Setting{Distribute: in.Distribute}
	case fails:
		return &Setting{Failover: in.Failover, Priority: in.FailoverPriority[:min(len(in.FailoverPriority), localities.MostPriorities)]}
	default:
		return nil
	}
}

// Endpoint is what counts of one.
type Endpoint struct {
	Locality string
	Weight   uint32                  // 0 counts as 1
	Label    func(key string) string // its labels, also those that stand for where it is
}

// Group is endpoints that are asked alike.
type Group struct {
	Priority uint32 // without gaps, from 0 on
	Locality string
	Weight   uint32 // its share beside others of the priority
	Members  []int  // which endpoints
}

// Spread puts endpoints into groups, in order of their priorities and localities. Endpoints that get no share are in none.
func (s *Setting) Spread(c Client, list []Endpoint) []Group {
	type place struct {
		priority uint32
		locality string
	}
	at := map[place]int{}
	var groups []Group
	var weights []uint64
	wanted := s.wanted(c)
	for i, e := range list {
		p := place{s.rank(c, wanted, e), e.Locality}
		n, there := at[p]
		if !there {
			n = len(groups)
			at[p], groups, weights = n, append(groups, Group{Priority: p.priority, Locality: p.locality}), append(weights, 0)
		}
		groups[n].Members = append(groups[n].Members, i)
		weights[n] += uint64(max(e.Weight, 1))
	}
	groups = weigh(groups, s.share(c, groups, weights))
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Locality, b.Locality))
	})
	CloseGaps(groups, func(g *Group) *uint32 { return &g.Priority })
	return groups
}

// pair is a label, and what it should be.
type pair struct{ key, value string }

// wanted are the labels of failoverPriority: as they are written, or as the client has them.
func (s *Setting) wanted(c Client) []pair {
	out := make([]pair, len(s.Priority))
	for i, label := range s.Priority {
		key, value, written := strings.Cut(label, "=")
		if !written {
			value = c.label(key)
		}
		out[i] = pair{key, value}
	}
	return out
}

// rank is how late an endpoint is asked.
func (s *Setting) rank(c Client, wanted []pair, e Endpoint) uint32 {
	switch {
	case len(s.Distribute) > 0:
		return 0
	case len(s.Priority) == 0:
		return s.farness(c, e)
	case len(s.Failover) == 0:
		return unlike(wanted, e)
	default: // as in Istio, labels come first
		return unlike(wanted, e)*(farthest+1) + s.farness(c, e)
	}
}

// farthest is the last of the ranks by distance: another region than the one that a failover names.
const farthest = 4

func (s *Setting) farness(c Client, e Endpoint) uint32 {
	if c.Locality == "" {
		return 0 // nothing is nearer to one of whom nobody knows where it is
	}
	far := distance(c.Locality, e.Locality)
	if far < 3 {
		return far
	}
	own, _, _ := Split(c.Locality)
	region, _, _ := Split(e.Locality)
	for _, f := range s.Failover {
		if f.From == own {
			if f.To != region {
				return farthest
			}
			break
		}
	}
	return far
}

// unlike is how many of the labels, in order, are not the same from the first one on that differs.
func unlike(wanted []pair, e Endpoint) uint32 {
	i := slices.IndexFunc(wanted, func(p pair) bool { return e.Label(p.key) != p.value })
	if i < 0 {
		return 0
	}
	return uint32(len(wanted) - i)
}

// share is what of each group's weight counts: all of it, or what a distribution for the client's place gives its locality.
func (s *Setting) share(c Client, groups []Group, weights []uint64) []uint64 {
	i := slices.IndexFunc(s.Distribute, func(d *networking.LocalityLoadBalancerSetting_Distribute) bool {
		return c.Locality != "" && localities.Covers(d.From, c.Locality)
	})
	if i < 0 {
		return weights
	}
	to := s.Distribute[i].To
	patterns := slices.Sorted(maps.Keys(to))
	slices.SortStableFunc(patterns, func(a, b string) int { return len(b) - len(a) }) // of patterns that overlap the narrower one counts
	of, total := make([]string, len(groups)), map[string]uint64{}
	for n, g := range groups {
		if at := slices.IndexFunc(patterns, func(p string) bool { return localities.Covers(p, g.Locality) }); at >= 0 {
			of[n] = patterns[at]
			total[of[n]] += weights[n]
		}
	}
	out := make([]uint64, len(groups))
	for n, pattern := range of {
		if percent := uint64(to[pattern]); percent > 0 {
			out[n] = (weights[n]*percent*precision + total[pattern] - 1) / total[pattern]
		}
	}
	return out
}

// precision is into how many parts a percent is divided.
const precision = 100

// weigh gives groups their weights, which together are at most what Envoy takes, and leaves those without one out.
func weigh(groups []Group, weights []uint64) []Group {
	var total uint64
	for _, w := range weights {
		total += w
	}
	by := total/math.MaxUint32 + 1
	out := groups[:0]
	for n, g := range groups {
		if weights[n] == 0 {
			continue
		}
		g.Weight = uint32(max(weights[n]/by, 1))
		out = append(out, g)
	}
	return out
}

// CloseGaps numbers the priorities of sorted groups without gaps, as Envoy wants them.
func CloseGaps[G any](groups []G, of func(*G) *uint32) {
	var was, number uint32
	for i := range groups {
		priority := of(&groups[i])
		if i > 0 && *priority != was {
			number++
		}
		was, *priority = *priority, number
	}
}
