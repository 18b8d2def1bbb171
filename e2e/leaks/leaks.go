// Package leaks holds that a package's tests leave no goroutine behind.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines have for ending that were told to. goleak itself gives them less than half a second, and on a busy machine one may need more to be scheduled.
const patience = 30 * time.Second

// Verify is what a TestMain does: it runs the tests, and ends the process with a failure if they fail or leave goroutines behind other than those of the options.
func Verify(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := left(patience, options...); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "the tests leave goroutines behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// left tells which goroutines there are still after a while.
func left(patience time.Duration, options ...goleak.Option) error {
	for end := time.Now().Add(patience); ; {
		err := goleak.Find(options...)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
