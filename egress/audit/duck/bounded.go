package duck

/*
#cgo linux LDFLAGS: -Wl,--wrap=duckdb_je_malloc -Wl,--wrap=duckdb_je_calloc -Wl,--wrap=duckdb_je_realloc -Wl,--wrap=duckdb_je_free
#include "bounded.h"
*/
import "C"

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
)

// Bounded runs f so that C's memory on its thread, which DuckDB's is where it has no threads of its own, comes to so many bytes more than before at most,
// together with that of others who run bounded. Beyond them DuckDB is told that there is no memory left; refused says that it was.
func Bounded(bytes int64, f func()) (refused bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	C.sallyport_bound(C.int64_t(bytes))
	defer func() { refused = C.sallyport_unbound() != 0 }()
	f()
	return false
}

// MemoryLimit is what DuckDB may take of memory, of what it counts itself, in bytes.
func MemoryLimit(ctx context.Context, conn *sql.Conn) (int64, error) {
	var text string
	if err := conn.QueryRowContext(ctx, "SELECT current_setting('memory_limit')").Scan(&text); err != nil {
		return 0, err
	}
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
