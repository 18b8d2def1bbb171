package lake

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/lake/place"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// childDir makes the test binary a process that brings records from that folder to the lake in it, until it is killed.
const childDir = "SALLYPORT_LAKE_TEST_DIR"

// writeUntilKilled prints a line with each step between two of a writer, so that it can be killed there.
func writeUntilKilled(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	s, err := store.Open(ctx, dir+"/store", store.Options{Held: []string{Holder}, Scratch: dir + "/store/lake"})
	fail(err)
	p, err := place.Parse(dir+"/lake", place.Access{})
	fail(err)
	w, err := NewWriter(Options{Store: s, Place: p, Dir: dir + "/store", Scratch: dir + "/store/lake", Records: 100, FileBytes: 100_000})
	fail(err)
	w.during = func(step string) { fmt.Println(step) }
	fail(w.Pass(ctx))
	for i := uint64(os.Getpid()) << 20; ; i++ {
		fail(s.Store(ctx, random(i, 60)))
		fail(w.Pass(ctx))
	}
}

// TestKilledAtAnyPoint: a writer is killed at steps of every kind; in the end each record is in the lake once.
func TestKilledAtAnyPoint(t *testing.T) {
	dir := t.TempDir()
	for round, lines := range []int{1, 2, 3, 14, 33, 36} { // steps come by four
		killAfter(t, dir, lines+round%2)
	}
	s, err := store.Open(t.Context(), dir+"/store", store.Options{Held: []string{Holder}, Scratch: dir + "/store/lake"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := &lab{dir: dir + "/store", lake: dir + "/lake", store: s, clock: clock()}
	w := l.writer(t, l.place(t))
	w.Options.Now = nil
	w, err = NewWriter(w.Options)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	live := rows(t, query.Over(s.DB()), "SELECT count(*), count(DISTINCT (proxy, epoch, seq)), sum(hash(proxy, epoch, seq, host, source)) FROM records")
	lake := rows(t, l.source(t, l.place(t)), "SELECT count(*), count(DISTINCT (proxy, epoch, seq)), sum(hash(proxy, epoch, seq, host, source)) FROM records")
	if fmt.Sprint(live) != fmt.Sprint(lake) || live[1][0] == int64(0) {
		t.Errorf("%v in the store, %v in the lake", live, lake)
	}
	l.onlyWhatCounts(t, l.place(t))
}

func killAfter(t *testing.T, dir string, lines int) {
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
	scanner := bufio.NewScanner(out)
	n := 0
	for scanner.Scan() {
		if n++; n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if n < lines {
		t.Fatalf("it ended by itself after %d of %d lines", n, lines)
	}
}
