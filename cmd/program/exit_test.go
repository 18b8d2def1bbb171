package program

import (
	"errors"
	"fmt"
	"testing"
)

type no struct{}

func (no) Error() string    { return "no" }
func (no) ProcessExit() int { return No }

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{{nil, Done}, {errors.New("x"), Failed}, {no{}, No}, {fmt.Errorf("wrapped: %w", no{}), No}} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}
