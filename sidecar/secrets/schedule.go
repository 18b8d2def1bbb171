package secrets

import (
	"math/rand/v2"
	"time"
)

const (
	firstRetry = 250 * time.Millisecond
	// maxRetryWithout is the longest pause while there is no valid certificate and traffic stands still.
	maxRetryWithout = 5 * time.Second
	maxRetryWith    = time.Minute
)

// renewAfter is how long after obtaining it a certificate is renewed: half of its lifetime, give or take a tenth of
// that half, so that agents that started together do not ask together. random is in [0,1).
func renewAfter(lifetime time.Duration, random float64) time.Duration {
	return time.Duration(float64(lifetime) * (0.45 + 0.1*random))
}

// retryAfter is the pause after the given number of failures (from 1) in a row: doubling, between half and all of
// it at random, and never more than a twentieth of the lifetime, which leaves a handful of attempts before the expiry
// whatever the lifetime is. lifetime is 0 when there is no valid certificate.
func retryAfter(failures int, lifetime time.Duration, random float64) time.Duration {
	longest := maxRetryWithout
	if lifetime > 0 {
		longest = max(min(lifetime/20, maxRetryWith), firstRetry)
	}
	pause := longest
	if failures < 16 {
		pause = min(firstRetry<<(failures-1), longest)
	}
	return time.Duration(float64(pause) * (0.5 + 0.5*random))
}

// defaultRandom is the jitter's source outside tests.
func defaultRandom() float64 { return rand.Float64() }
