package query

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// BenchmarkAccounts asks for the ten accounts, and the ten hosts, with the most of three million records of thirty days: by numbers of parts, and as others' SQL is answered otherwise.
func BenchmarkAccounts(b *testing.B) {
	const records, days, senders, targets = 3_000_000, 30, 1_200, 7_500
	s, err := store.Open(b.Context(), b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	// As a store has records, but for what is not asked for.
	for _, statement := range []string{
		fmt.Sprintf("INSERT INTO record_senders BY NAME SELECT i AS id, 'team-' || (i %% 40) AS namespace, 'service-' || (i %% 400) AS service_account FROM range(%d) t(i)", days*senders),
		fmt.Sprintf("INSERT INTO record_targets BY NAME SELECT i AS id, 'api-' || (i %% 2000) || '.vendor-' || (i %% 300) || '.example' AS host FROM range(%d) t(i)", days*targets),
		"INSERT INTO record_reporters BY NAME SELECT 0 AS id", "INSERT INTO record_outcomes BY NAME SELECT 0 AS id",
		fmt.Sprintf("INSERT INTO record_rows BY NAME SELECT 0 AS reporter_id, 0 AS outcome_id, i * %[2]d // %[1]d * %[3]d + hash(i) %% %[3]d AS sender_id, i * %[2]d // %[1]d * %[4]d + hash(i + 1) %% %[4]d AS target_id, "+
			"i AS nth, 0 AS ahead, now() AS ingested, now() AS time FROM range(%[1]d) t(i)", records, days, senders, targets),
		"CHECKPOINT",
	} {
		if _, err := s.DB().Exec(statement); err != nil {
			b.Fatal(statement, err)
		}
	}
	usual := narrowFrom
	defer func() { narrowFrom = usual }()
	for _, by := range []string{"namespace, service_account", "host"} {
		for name, from := range map[string]uint64{"now": usual, "as-the-view": 1 << 60} {
			b.Run(by+"/"+name, func(b *testing.B) {
				narrowFrom = from
				began, rounds := processorTime(b), 0
				for b.Loop() {
					var found kept
					if err := SQL(b.Context(), s.DB(), "SELECT "+by+", count(*) AS n FROM records GROUP BY ALL ORDER BY n DESC LIMIT 10", &found); err != nil || len(found.rows) != 10 {
						b.Fatal(found, err)
					}
					rounds++
				}
				b.ReportMetric(float64((processorTime(b)-began).Nanoseconds())/float64(rounds)/records, "ns-cpu/record")
			})
		}
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
