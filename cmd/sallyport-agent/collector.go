package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// garbage is how much of it may lie about before the collector runs, in bytes, as far as the bounds below let it.
	garbage = 14 << 20
	// The bounds of GOGC. With a small heap the default of 100 lets the collector run every few hundred questions
	// that go upstream, and each of its runs delays some of them.
	leastPercent, mostPercent = 50, 400
	// paceEvery is how often what lives is looked at.
	paceEvery = time.Second
)

// paceCollector keeps the garbage at about the same size, however much the cache holds, until ctx ends. A GOGC or
// GOMEMLIMIT that somebody has set stays.
func paceCollector(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	ticker := time.NewTicker(paceEvery)
	defer ticker.Stop()
	before := debug.SetGCPercent(mostPercent)
	defer func() { debug.SetGCPercent(before) }()
	for set := mostPercent; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(sample)
		if want := percent(sample[0].Value.Uint64()); want < set*9/10 || want > set*11/10 {
			debug.SetGCPercent(want)
			set = want
		}
	}
}

// percent is the GOGC with which live bytes gather the wanted garbage.
func percent(live uint64) int {
	return int(min(max(100*garbage/max(live, 1), leastPercent), mostPercent))
}
