package localities

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/decode/strict"
)

// The labels that stand for regions and what is in them.
const (
	LabelRegion  = "topology.kubernetes.io/region"
	LabelZone    = "topology.kubernetes.io/zone"
	LabelSubzone = "topology.istio.io/subzone"
)

var topology = []string{LabelRegion, LabelZone, LabelSubzone}

// MostPriorities is how many labels of failoverPriority count: each is asked of each endpoint.
const MostPriorities = 16

// Reject is told of what is wrong at a field, of which value, and what to do.
type Reject func(field string, value any, message, fix string)

// Check judges a setting that is written at a field; nil says nothing.
func Check(field string, s *networking.LocalityLoadBalancerSetting, reject Reject) {
	if s == nil {
		return
	}
	if len(s.Distribute) > 0 && len(s.Failover) > 0 {
		reject(field, nil, "distribute and failover cannot be set together", "keep one of the two")
		return
	}
	if n := len(s.FailoverPriority); n > MostPriorities {
		reject(field+".failoverPriority", n, fmt.Sprintf("there are more than %d labels", MostPriorities), "keep the first ones")
	}
	for i, label := range s.FailoverPriority {
		if len(s.Failover) > 0 && slices.Contains(topology, label) {
			reject(fmt.Sprintf("%s.failoverPriority[%d]", field, i), label, "cannot be set together with failover, which is about regions", "remove one of the two")
		}
	}
	from := make([]string, len(s.Distribute))
	for i, d := range s.Distribute {
		from[i] = d.From
		distribution(fmt.Sprintf("%s.distribute[%d].to", field, i), d.To, reject)
	}
	disjoint(field+".distribute", from, reject)
	for i, f := range s.Failover {
		Failover(fmt.Sprintf("%s.failover[%d]", field, i), f.From, f.To, reject)
	}
}

// Failover judges whereto traffic of a region goes that fails.
func Failover(field, from, to string, reject Reject) {
	if from == to {
		reject(field, cmp.Or(to, "from and to"), "leads to the same region", "name two regions")
	}
	for i, region := range [...]string{from, to} {
		if strings.ContainsAny(region, "/*") {
			reject(field+"."+[...]string{"from", "to"}[i], region, "is no region alone", "write a region's name, without zone and wildcard")
		}
	}
}

// distribution judges the shares of the localities that traffic goes to.
func distribution(field string, to map[string]uint32, reject Reject) {
	var sum uint64
	places := slices.Sorted(maps.Keys(to))
	for _, place := range places {
		weight := to[place]
		if weight == 0 || weight > 100 {
			reject(strict.Join(field, place), weight, "is no share of 100", "write a number from 1 to 100, or remove it")
		}
		sum += uint64(weight)
	}
	if sum != 100 {
		reject(field, sum, "the weights' sum is not 100", "make them add up to 100")
	}
	disjoint(field, places, reject)
}

// disjoint rejects what is no REGION[/ZONE[/SUBZONE]], where "*" may be at the end, and those that are within another.
func disjoint(field string, list []string, reject Reject) {
	for i, l := range list {
		if stars := strings.Count(l, "*"); stars > 1 || stars == 1 && !strings.HasSuffix(l, "*") {
			reject(field, l, `"*" may only be at the end`, `write it as in "region/*"`)
		}
		if slices.Contains(strings.SplitN(l, "/", 3), "") {
			reject(field, l, "a part of the locality is empty", "write REGION, REGION/ZONE or REGION/ZONE/SUBZONE")
		}
		for _, other := range list[:i] {
			if Covers(l, other) || Covers(other, l) {
				reject(field, l, "overlaps with "+other, "keep one of the two")
				break
			}
		}
	}
}

// Covers says whether a pattern as in a distribution ("*", "region/*", "region/zone") covers a locality.
func Covers(pattern, locality string) bool {
	wants, has := strings.SplitN(pattern, "/", 3), strings.SplitN(locality, "/", 3)
	for i, want := range wants {
		switch {
		case want == "*":
			return true
		case i >= len(has) || has[i] != want:
			return false
		}
	}
	return true
}
