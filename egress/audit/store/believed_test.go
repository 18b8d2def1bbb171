package store

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/duck"
)

// TestBelieved: reckoned by numbers, times and days are those that a calendar gives.
func TestBelieved(t *testing.T) {
	db, err := duck.Open(filepath.Join(t.TempDir(), "a.db"), url.Values{}, "SET GLOBAL TimeZone = 'UTC'")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// Around what is believed on both sides, around days, and far off.
	const times = `(SELECT ingested, ingested + to_microseconds(off + d) AS time FROM (VALUES (TIMESTAMPTZ '2027-03-01 00:00:00+00'), (TIMESTAMPTZ '2028-02-29 23:59:59.999999+00')) i(ingested),
		(VALUES (0), (-86400000000), (86400000000), (-30 * 86400000000), (-20000 * 86400000000), (90000 * 86400000000)) o(off), (VALUES (-1), (0), (1), (43200000000)) d(d))`
	const calendar = "least(greatest(time, ingested - INTERVAL 30 DAY), ingested + INTERVAL 1 DAY)"
	var n, different int
	err = db.QueryRow("SELECT count(*), count(*) FILTER ("+BelievedTime+" <> "+calendar+" OR "+BelievedDay+" <> CAST("+calendar+" AS DATE)) FROM "+times).Scan(&n, &different)
	if err != nil || n != 48 || different != 0 {
		t.Errorf("%d of %d are different, %v", different, n, err)
	}
}
