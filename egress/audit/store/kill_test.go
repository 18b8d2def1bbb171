package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// childDir makes the test binary a process that stores into that folder until it is killed.
const childDir = "SALLYPORT_STORE_TEST_DIR"

// storeUntilKilled prints the last number of each batch after Store returned. Three callers at a time make groups.
func storeUntilKilled(dir string) {
	s, err := Open(context.Background(), dir, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	next := uint64(1)
	for {
		errs := make(chan error, 3)
		for range 3 {
			batch := recs(next, next+39)
			next += 40
			go func() { errs <- s.Store(context.Background(), batch) }()
		}
		for range 3 {
			if err := <-errs; err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		if err := s.Gather(context.Background()); err != nil { // it is killed here, too
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(next - 1)
	}
}

func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		acknowledged := killAfter(t, dir, 15*(round+1))

		// First as a reader would find it: with a log that was not checkpointed.
		db, err := OpenReadOnly(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		n, distinct := count(t, db)
		var upTo int
		err = db.QueryRow("SELECT count(*) FROM records WHERE seq <= ?", acknowledged).Scan(&upTo)
		if err != nil || upTo != acknowledged || n != distinct {
			t.Fatalf("round %d: %d of %d acknowledged records, %d rows, %d different, %v",
				round, upTo, acknowledged, n, distinct, err)
		}
		var asked int
		for _, x := range inputsOf(t, db, InputsFilter{}) {
			asked += int(x.Count)
		}
		if asked != n {
			t.Errorf("round %d: the inputs are of %d records, want %d", round, asked, n)
		}
		var sums int
		err = db.QueryRow("SELECT (SELECT coalesce(sum(records), 0) FROM rollups)::INTEGER + (SELECT count(*) FROM records WHERE ingested > (SELECT until FROM rollups_state))").Scan(&sums)
		if err != nil || sums != n {
			t.Errorf("round %d: the roll-ups are of %d records, want %d, %v", round, sums, n, err)
		}
		if _, err := db.Exec("DELETE FROM records"); err == nil {
			t.Error("the read-only database was written")
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killAfter lets a child store some batches and kills it in the middle of the work; it starts over at number 1, so
// that everything an earlier child stored comes as a copy.
func killAfter(t *testing.T, dir string, batches int) (acknowledged int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 1; lines.Scan(); n++ {
		if acknowledged, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(err)
		}
		if n == batches {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	return acknowledged
}
