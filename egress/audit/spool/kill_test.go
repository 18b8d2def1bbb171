package spool

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// childDir makes the test binary a process that appends to that folder until it is killed.
const childDir = "SALLYPORT_SPOOL_TEST_DIR"

// killedBatch is how many records the child gives Append at once at most.
const killedBatch = 30

// appendUntilKilled prints the running number of the last record that Append accepted.
func appendUntilKilled(dir string) {
	s, err := Open(dir, Limits{SegmentBytes: 64 << 10})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i := 0; i < 1_000_000; {
		var some []record.Record
		for range 1 + i%killedBatch {
			some = append(some, rec(i))
			i++
		}
		if err := s.Append(some...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(i - 1)
	}
}

func TestKilledProcessLosesNothingAccepted(t *testing.T) {
	dir := t.TempDir()
	var epoch uint64
	for round := range 3 {
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
		accepted, lines := -1, bufio.NewScanner(out)
		for killed := false; lines.Scan(); {
			if accepted, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
			if accepted >= 2000*(round+1) && !killed {
				killed = true
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed

		s, err := Open(dir, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if epoch == 0 {
			epoch = s.Stats().Epoch
		}
		got := drain(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		checkRound(t, got, accepted, epoch)
	}
}

// checkRound wants every accepted record once and in order; one more batch may have been written before its line was.
func checkRound(t *testing.T, got []record.Record, accepted int, epoch uint64) {
	t.Helper()
	if n := len(got); n > 0 && got[n-1].Class == record.Gap { // death came within a write
		got = got[:n-1]
	}
	if len(got) < accepted+1 || len(got) > accepted+1+killedBatch {
		t.Fatalf("%d records, %d were accepted", len(got), accepted+1)
	}
	for i, r := range got {
		if r.Host != rec(i).Host || r.Epoch != epoch || i > 0 && r.Seq != got[i-1].Seq+1 {
			t.Fatalf("record %d is %+v", i, r)
		}
	}
}
