package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/serviceentry/locality"
)

// topology are the labels that stand for regions and what is in them.
var topology = []string{locality.LabelRegion, locality.LabelZone, locality.LabelSubzone}

func (r *report) localitySetting(field string, s *networking.LocalityLoadBalancerSetting) {
	if s == nil {
		return
	}
	if len(s.Distribute) > 0 && len(s.Failover) > 0 {
		r.reject(field, nil, "distribute and failover cannot be set together", "keep one of the two")
		return
	}
	if n := len(s.FailoverPriority); n > locality.MostPriorities {
		r.reject(at(field, "failoverPriority"), n, fmt.Sprintf("there are more than %d labels", locality.MostPriorities), "keep the first ones")
	}
	for i, label := range s.FailoverPriority {
		if len(s.Failover) > 0 && slices.Contains(topology, label) {
			r.reject(at(field, "failoverPriority", i), label, "cannot be set together with failover, which is about regions", "remove one of the two")
		}
	}
	from := make([]string, len(s.Distribute))
	for i, d := range s.Distribute {
		from[i] = d.From
		r.distribution(at(field, "distribute", i, "to"), d.To)
	}
	r.localities(at(field, "distribute"), from)
	for i, f := range s.Failover {
		r.failover(at(field, "failover", i), f.From, f.To)
	}
}

// distribution checks the shares of the localities that traffic goes to.
func (r *report) distribution(field string, to map[string]uint32) {
	var sum uint64
	for _, place := range sortedKeys(to) {
		weight := to[place]
		if weight == 0 || weight > 100 {
			r.reject(strict.Join(field, place), weight, "is no share of 100", "write a number from 1 to 100, or remove it")
		}
		sum += uint64(weight)
	}
	if sum != 100 {
		r.reject(field, sum, "the weights' sum is not 100", "make them add up to 100")
	}
	r.localities(field, sortedKeys(to))
}

// localities rejects what is no REGION[/ZONE[/SUBZONE]], where "*" may be at the end, and those that are within another.
func (r *report) localities(field string, list []string) {
	for i, l := range list {
		if stars := strings.Count(l, "*"); stars > 1 || stars == 1 && !strings.HasSuffix(l, "*") {
			r.reject(field, l, `"*" may only be at the end`, `write it as in "region/*"`)
		}
		if slices.Contains(strings.SplitN(l, "/", 3), "") {
			r.reject(field, l, "a part of the locality is empty", "write REGION, REGION/ZONE or REGION/ZONE/SUBZONE")
		}
		for _, other := range list[:i] {
			if locality.Covers(l, other) || locality.Covers(other, l) {
				r.reject(field, l, "overlaps with "+other, "keep one of the two")
				break
			}
		}
	}
}

func (r *report) failover(field, from, to string) {
	if from == to {
		r.reject(field, cmp.Or(to, "from and to"), "leads to the same region", "name two regions")
	}
	for i, region := range [...]string{from, to} {
		if strings.ContainsAny(region, "/*") {
			r.reject(at(field, [...]string{"from", "to"}[i]), region, "is no region alone", "write a region's name, without zone and wildcard")
		}
	}
}
