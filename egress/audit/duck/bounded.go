package duck

/*
#cgo linux LDFLAGS: -Wl,--wrap=duckdb_je_malloc -Wl,--wrap=duckdb_je_calloc -Wl,--wrap=duckdb_je_realloc -Wl,--wrap=duckdb_je_free
#cgo linux LDFLAGS: -Wl,--wrap=__gxx_personality_v0
#include "bounded.h"
*/
import "C"

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Refused is what somebody who ran bounded was refused.
type Refused int

// What is refused. Depth is said where both were.
const (
	Nothing Refused = iota
	Memory
	Depth // of the stack
)

// Bounded runs f so that C's memory on its thread, which DuckDB's is where it has no threads of its own, comes to so many bytes more than before at most,
// together with that of others who run bounded, and that nothing goes deeper than the thread's stack has room for. Beyond either DuckDB is told that there is no memory left.
func Bounded(bytes int64, f func()) (refused Refused) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() == unix.Getpid() { // the first thread's stack grows, and cannot be divided; this one is locked to it, so that another goroutine is elsewhere
		done := make(chan Refused)
		go func() { done <- Bounded(bytes, f) }()
		return <-done
	}
	C.sallyport_bound(C.int64_t(bytes))
	defer func() { refused = Refused(C.sallyport_unbound()) }()
	f()
	return Nothing
}

// Limits are what DuckDB may take of memory, of what it counts itself, in bytes; and how many threads it works in, that of who asks among them.
func Limits(ctx context.Context, conn *sql.Conn) (memory int64, threads int, err error) {
	var text string
	if err := conn.QueryRowContext(ctx, "SELECT current_setting('memory_limit'), current_setting('threads')").Scan(&text, &threads); err != nil {
		return 0, 0, err
	}
	memory, err = bytesOf(text)
	return memory, threads, err
}

// bytesOf reads a memory limit as DuckDB writes it.
func bytesOf(text string) (int64, error) {
	var number float64
	var unit string
	if _, err := fmt.Sscanf(text, "%f %s", &number, &unit); err != nil {
		return 0, fmt.Errorf("duckdb: memory_limit is %q", text)
	}
	for i, name := range []string{"byte", "KiB", "MiB", "GiB", "TiB"} {
		if unit == name || i == 0 && unit == "bytes" {
			return int64(number * float64(int64(1)<<(10*i))), nil
		}
	}
	return 0, fmt.Errorf("duckdb: memory_limit is %q", text)
}
