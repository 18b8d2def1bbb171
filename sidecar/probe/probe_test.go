package probe

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/xds/health"
)

// TestThresholds: so many in a row count, and only what changes is told.
func TestThresholds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var told []string
		answers := "xoxxoooxxxxo"
		p := New(netip.Addr{}, false, func(problem string) { told = append(told, time.Now().Format("05")+problem) }, func() {})
		start := time.Now()
		p.ask = func(context.Context, health.Probe) error {
			i := int(time.Since(start)/time.Second) - 1
			if i < len(answers) && answers[i] == 'x' {
				return errors.New("x")
			}
			return nil
		}
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx) }()
		p.Set(&health.Probe{InitialDelaySeconds: 1, PeriodSeconds: 1, SuccessThreshold: 2, FailureThreshold: 3, TCPSocket: &health.Port{Port: 1}})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		at := func(second int) string { return start.Add(time.Duration(second) * time.Second).Format("05") }
		if want := []string{at(6), at(10) + "x", at(13)}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		p.Set(nil)
		p.Set(&health.Probe{PeriodSeconds: 1, TCPSocket: &health.Port{Port: 1}})
		time.Sleep(time.Second)
		synctest.Wait()
		if len(told) != 4 {
			t.Errorf("a new probe's first verdict is not told: %q", told)
		}
		cancel()
		<-done
	})
}

// TestCommands run where the machine's owner allows it, and nowhere else.
func TestCommands(t *testing.T) {
	for what, c := range map[string]struct {
		allow   bool
		command []string
		want    string
	}{
		"not allowed": {false, []string{"true"}, "--exec-probes"},
		"well":        {true, []string{"true"}, ""},
		"not well":    {true, []string{"sh", "-c", "echo no disk; exit 3"}, "exit status 3: no disk"},
		"too long":    {true, []string{"sleep", "60"}, "it takes too long"},
		"nothing":     {true, nil, "empty command"},
	} {
		limit := time.Minute
		if what == "too long" {
			limit = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := New(netip.Addr{}, c.allow, nil, nil).perform(ctx, health.Probe{Exec: &health.Exec{Command: c.command}})
		cancel()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}
