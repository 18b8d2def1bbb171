package controlplane

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// mostEnds is of how many rules of EgressPolicies the ends are measured: of those that end, or ended, first.
const mostEnds = 1000

var ruleExpires = prometheus.NewDesc("sallyport_policy_rule_expires_timestamp_seconds",
	"When a rule of an EgressPolicy ends, of those that do, as Unix time; the 1,000 that end first.", []string{"namespace", "policy", "rule"}, nil)

// policyEnds measures when rules of EgressPolicies end, from the snapshot that is in force.
type policyEnds func() *registry.Snapshot

// Describe implements [prometheus.Collector].
func (policyEnds) Describe(out chan<- *prometheus.Desc) { out <- ruleExpires }

// Collect implements [prometheus.Collector].
func (snapshot policyEnds) Collect(out chan<- prometheus.Metric) {
	s := snapshot()
	type end struct {
		*egresspolicy.Policy
		*egresspolicy.Rule
	}
	var ends []end
	for _, ns := range s.PolicedNamespaces() {
		for _, p := range s.Policies(ns) {
			for i := range p.Rules {
				if !p.Rules[i].Until.IsZero() {
					ends = append(ends, end{p, &p.Rules[i]})
				}
			}
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int { return a.Until.Compare(b.Until) })
	for _, e := range ends[:min(len(ends), mostEnds)] {
		out <- prometheus.MustNewConstMetric(ruleExpires, prometheus.GaugeValue, float64(e.Until.Unix()), e.Key.Namespace, e.Key.Name, e.Name)
	}
}
