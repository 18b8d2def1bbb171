package program

import (
	"errors"
	"fmt"
	"testing"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{{nil, Done}, {errors.New("x"), Failed}, {AnswerNo{}, No}, {fmt.Errorf("wrapped: %w", AnswerNo{}), No}, {Misuse(errors.New("x")), Usage}} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}
