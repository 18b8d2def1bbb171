package query

import (
	"strings"
	"time"
)

// Literal writes a text as SQL. DuckDB knows no escapes but the doubled quote; a NUL ends its statements.
func Literal(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, "\x00", "\uFFFD"), "'", "''") + "'"
}

// Instant writes a time as SQL, in the microseconds that the store has.
func Instant(t time.Time) string {
	return "TIMESTAMPTZ " + Literal(t.UTC().Format("2006-01-02 15:04:05.000000+00"))
}
