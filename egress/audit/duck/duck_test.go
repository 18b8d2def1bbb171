package duck_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/duck"
)

// Who asks and goes away at any moment does not keep the file from being opened again in this process.
func TestBrokenOffQueriesLeaveTheFile(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			file, random := filepath.Join(t.TempDir(), "a.db"), rand.New(rand.NewPCG(1, seed))
			for i := range 8 {
				ended := make(chan error, 1)
				go func() { ended <- askAndLeave(t.Context(), file, time.Duration(random.IntN(2500))*time.Microsecond) }()
				select {
				case err := <-ended:
					if err != nil {
						t.Fatal(i, err)
					}
				case <-time.After(time.Minute):
					t.Fatalf("after %d queries that were broken off the file cannot be opened again", i)
				}
			}
		})
	}
}

// askAndLeave opens the file, asks what takes long, leaves after a while, and closes the file.
func askAndLeave(ctx context.Context, file string, after time.Duration) error {
	db, err := duck.Open(file, url.Values{"threads": {"2"}})
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS t AS SELECT range a, range % 7 b FROM range(1000)"); err != nil {
		return err
	}
	ctx, leave := context.WithTimeout(ctx, after)
	defer leave()
	var n int
	// Whether it was answered is chance; what is asked for is the end.
	_ = db.QueryRowContext(ctx, "SELECT sum(s) FROM (SELECT a.b, sum(a.a) s FROM t a, t b, t c GROUP BY a.b ORDER BY 1)").Scan(&n)
	return db.Close()
}
