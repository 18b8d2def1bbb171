package store

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/duck"
)

// TestTotals: of nothing a total is 0, whether there are no rows, or none with a number; and it stays within its type.
func TestTotals(t *testing.T) {
	db, err := duck.Open(filepath.Join(t.TempDir(), "a.db"), url.Values{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for from, want := range map[string]uint64{
		"range(0) r(lost)":                                                  0,
		"(SELECT NULL::UBIGINT AS lost)":                                    0,
		"(VALUES (NULL::UBIGINT), (3), (4)) r(lost)":                        7,
		"(SELECT 18446744073709551615::UBIGINT AS lost UNION ALL SELECT 1)": 18446744073709551615,
	} {
		var got uint64
		if err := db.QueryRowContext(t.Context(), "SELECT "+total("lost")+" FROM "+from).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d (%v), want %d", from, got, err, want)
		}
	}
}
