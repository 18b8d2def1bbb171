package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// memory is what a proxy takes of its own, in bytes: private pages that it has written, not those of programs, which all that run a program share.
type memory struct{ envoy, agent int64 }

func (m memory) sum() int64 { return m.envoy + m.agent }

// givenBack is how long it takes until agents have given back what work has left behind (sidecar/agent), and Envoys (package supervise).
const givenBack = 75 * time.Second

// settled is the memory of both when it grows no more.
func settled(ctx context.Context, envoy, agent int) (m memory, err error) {
	err = world.Within(ctx, readyWithin, func() error {
		now := memory{}
		if now.envoy, err = private(envoy); err != nil {
			return err
		}
		if now.agent, err = private(agent); err != nil {
			return err
		}
		was := m
		if m = now; m.sum() > was.sum()+was.sum()/200 {
			pause(ctx, time.Second)
			return fmt.Errorf("it grows: %d bytes, %d before", m.sum(), was.sum())
		}
		return nil
	})
	return m, err
}

// private are the bytes of pages that a process has written, and are its alone (proc(5) smaps_rollup).
func private(pid int) (sum int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "Private_Dirty:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, err
			}
			sum += kib << 10
		}
	}
	return sum, nil
}

// atRest is how much of the time somebody waited for a processor while nothing of ours was measured.
type atRest struct {
	before  string
	percent float64
}

// Resting, and how much pressure then means that others use the machine.
const (
	restFor = 2 * time.Second
	tooBusy = 10
)

// rest looks at how busy the machine is by others.
func (f *ambientFigures) rest(ctx context.Context, before string) {
	began, was := time.Now(), waited()
	pause(ctx, restFor)
	r := atRest{before, 100 * float64(waited()-was) / float64(time.Since(began))}
	if f.pressure = append(f.pressure, r); len(f.pressure) == 1 || r.percent > f.busiest.percent {
		f.busiest = r
	}
}

// waited is how long, since boot, some task waited for a processor ("some … total=" of /proc/pressure/cpu, in microseconds).
func waited() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	_, total, _ := strings.Cut(line, "total=")
	n, err := strconv.ParseInt(strings.TrimSpace(total), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
