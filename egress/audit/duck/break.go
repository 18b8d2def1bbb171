package duck

/*
#include "break.h"
*/
import "C"

import (
	"context"
	"sync"
	"time"
)

// patience is how long who is interrupted has to end by himself.
const patience = 5 * time.Second

// BreakOff has what runs on this thread within Bounded broken off where it has not ended 5 s after ctx: an error is thrown in the midst of it, which DuckDB says. DuckDB's own
// interrupts end what looks for them, and a statement that is planned does not. What asks for no memory goes on: one call of a function may take as long as it likes. end ends that, on the same thread: what has to be done whole comes after it.
func BreakOff(ctx context.Context) (end func()) {
	statement := C.sallyport_break_begin()
	ended, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		select {
		case <-ctx.Done():
		case <-ended:
			return
		}
		select {
		case <-time.After(patience):
			C.sallyport_break(statement)
		case <-ended:
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-left
		C.sallyport_break_end()
	})
}
