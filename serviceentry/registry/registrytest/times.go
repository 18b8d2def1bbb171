package registrytest

import "testing"

// Times is how often something random is tried: a tenth of n with the race detector, which finds nothing more where one goroutine does all of it.
func Times(n int) int {
	if Raced {
		return n / 10
	}
	return n
}

// InOneGoroutine leaves a long test to the run without the race detector, which has nothing to find in it.
func InOneGoroutine(t *testing.T) {
	t.Helper()
	if Raced {
		t.Skip("it is in one goroutine, and takes minutes with the race detector")
	}
}
