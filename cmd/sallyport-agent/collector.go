package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// roomBeside is the heap beside half of the cache's bound that may fill before the collector runs, in bytes.
	roomBeside = 6 << 20
	// The bounds of GOGC. With a small heap the default of 100 lets the collector run every few hundred questions
	// that go upstream, and each of its runs delays some of them.
	leastPercent, mostPercent = 50, 800
	// paceEvery is how often what lives is looked at.
	paceEvery = time.Second
)

// paceCollector keeps the heap at about the same size, however much of its bound the cache holds, until ctx ends: who
// gives the cache more memory gives the collector more. A GOGC or GOMEMLIMIT that somebody has set stays.
func paceCollector(ctx context.Context, cacheBytes int) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	ticker := time.NewTicker(paceEvery)
	defer ticker.Stop()
	room := uint64(max(cacheBytes, 0)/2 + roomBeside)
	metrics.Read(sample)
	set := percent(sample[0].Value.Uint64(), room)
	before := debug.SetGCPercent(set)
	defer func() { debug.SetGCPercent(before) }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(sample)
		if want := percent(sample[0].Value.Uint64(), room); want < set*9/10 || want > set*11/10 {
			debug.SetGCPercent(want)
			set = want
		}
	}
}

// percent is the GOGC with which live bytes grow to room bytes before the collector runs.
func percent(live, room uint64) int {
	live = max(live, 1<<20)
	return int(min(max(100*(max(room, live)-live)/live, leastPercent), mostPercent))
}
