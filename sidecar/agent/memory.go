package agent

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A configuration of ten thousand hosts passes through in one message. Go would keep the memory of that moment for
// minutes, in every pod of the mesh.
const (
	restEvery = 5 * time.Second
	restAbove = 4 << 20 // bytes that are held more than after the last rest

	// What a burst left behind may die later, when Envoy has taken it, without anything growing.
	restAgain = 30 * time.Second
	restWorth = 2 << 20 // bytes allocated since the last rest
)

// giveMemoryBack returns what bursts have left behind to the kernel, until ctx ends.
func giveMemoryBack(ctx context.Context) {
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	var rested, seen uint64
	var when time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			held, allocated := heap()
			if held > rested+restAbove || now.Sub(when) >= restAgain && allocated > seen+restWorth {
				runtime.GC() // what sync.Pools hold, like gRPC's buffers, outlives one collection
				debug.FreeOSMemory()
				rested, seen = heap()
				when = now
			}
		}
	}
}

// heap gives its resident bytes, used or not, and how many were ever allocated.
func heap() (held, allocated uint64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	for _, s := range samples[1:] {
		held += s.Value.Uint64()
	}
	return held, samples[0].Value.Uint64()
}
