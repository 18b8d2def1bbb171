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

	// What a burst left behind may die later, when Envoy has taken it, without anything growing. Go itself collects
	// every two minutes, but keeps the memory.
	restAgain = time.Minute
)

// giveMemoryBack returns what bursts have left behind to the kernel, until ctx ends.
func giveMemoryBack(ctx context.Context) {
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	rested, when := uint64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if held() > rested+restAbove || now.Sub(when) >= restAgain {
				runtime.GC() // what sync.Pools hold, like gRPC's buffers, outlives one collection
				debug.FreeOSMemory()
				rested, when = held(), now
			}
		}
	}
}

// held is the heap's resident memory, in bytes, used or not.
func held() uint64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	sum := uint64(0)
	for _, s := range samples {
		sum += s.Value.Uint64()
	}
	return sum
}
