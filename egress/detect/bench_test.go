package detect_test

import (
	"context"
	"slices"
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

// BenchmarkIngest stores records into a log of more than 600,000, in batches of 1,000: alone, and while all rules run again and again, each with its rest.
func BenchmarkIngest(b *testing.B) {
	for _, beside := range []bool{false, true} {
		b.Run(map[bool]string{false: "alone", true: "beside"}[beside], func(b *testing.B) {
			c := newCorpus(1)
			c.clean(20)
			c.bad()
			batch := newCorpus(2)
			batch.clean(0.1)
			s := c.kept(b)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan bool)
			go func() {
				defer close(done)
				for beside && ctx.Err() == nil {
					_, _ = detect.Run(ctx, detect.DB{DB: s.DB()}, detect.BuiltIn(), window(), detect.Options{Rest: func(_ context.Context, took time.Duration) { <-time.After(took) }})
				}
			}()
			seq := uint64(1 << 40)
			for b.Loop() {
				records := slices.Clone(batch.out[:1000])
				for i := range records {
					seq++
					records[i].Seq = seq
				}
				if err := s.Store(ctx, records); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "records/s")
			cancel()
			<-done
		})
	}
}
