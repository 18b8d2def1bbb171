package secrets

import (
	"testing"
	"time"
)

func TestRenewAfter(t *testing.T) {
	for _, lifetime := range []time.Duration{2 * time.Second, time.Minute, 24 * time.Hour} {
		earliest, latest := renewAfter(lifetime, 0), renewAfter(lifetime, 0.9999)
		if earliest < lifetime*44/100 || latest > lifetime*56/100 || earliest >= latest {
			t.Errorf("lifetime %s: renewed between %s and %s", lifetime, earliest, latest)
		}
	}
}

// However short the lifetime, a controller that is away for a moment is asked again several times before the expiry.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		lifetime time.Duration
		attempts int
		longest  time.Duration
	}{
		{0, 0, maxRetryWithout},
		{2 * time.Second, 3, firstRetry},
		{10 * time.Second, 8, 500 * time.Millisecond},
		{time.Minute, 9, 3 * time.Second},
		{24 * time.Hour, 500, time.Minute},
	} {
		var spent time.Duration
		failures := 0
		for spent < c.lifetime/2 || failures < 40 {
			failures++
			pause := retryAfter(failures, c.lifetime, 0.9999)
			if pause <= 0 || pause > c.longest {
				t.Fatalf("lifetime %s: pause %s after %d failures, want up to %s", c.lifetime, pause, failures, c.longest)
			}
			if spent += pause; spent < c.lifetime/2 && failures > 1e6 {
				t.Fatal("asks without end")
			}
			if spent >= c.lifetime/2 && failures < c.attempts {
				t.Fatalf("lifetime %s: %d attempts, want %d", c.lifetime, failures, c.attempts)
			}
		}
	}
	if retryAfter(1<<40, time.Hour, 0) <= 0 {
		t.Error("the pause overflows")
	}
}
