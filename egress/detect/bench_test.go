package detect_test

import (
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/detect"
)

// BenchmarkRules runs each rule over the last day of more than three million records of 15 days.
func BenchmarkRules(b *testing.B) {
	c := newCorpus(1)
	c.clean(90)
	c.bad()
	b.Logf("%d records", len(c.out))
	log := c.stored(b)
	feed := &detect.Feed{}
	for _, rule := range detect.BuiltIn() {
		b.Run(rule.ID, func(b *testing.B) {
			for b.Loop() {
				began := time.Now()
				run(b, log, []*detect.Rule{rule}, detect.Options{Inputs: detect.Inputs{Feed: feed, Rules: []detect.PolicyRule{}}})
				b.ReportMetric(time.Since(began).Seconds(), "s/run")
			}
		})
	}
}
