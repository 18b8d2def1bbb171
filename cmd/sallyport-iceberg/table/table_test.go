package table

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/lake/content"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
)

func TestMain(m *testing.M) {
	if where := os.Getenv(childLake); where != "" {
		passUntilKilled(where)
		return
	}
	os.Exit(m.Run())
}

func pass(t *testing.T, k *Keeper) *Status {
	t.Helper()
	s, err := k.Pass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSameAnswers: an engine that knows nothing of Sallyport reads the same from the table as the store has: before files become others, and after; in each
// snapshot what was there then; and of a day only the files that may have it.
func TestSameAnswers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.add(t, 1, 200)
	k := l.keeper(t)
	if _, err := k.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "sync") {
		t.Errorf("there is a table already: %v", err)
	}
	if s := pass(t, k); s.Records != 200 || s.Added != s.Files || s.Snapshot == 0 {
		t.Errorf("%+v", s)
	}
	if s := pass(t, k); s.Added+s.Removed != 0 {
		t.Errorf("again: %+v", s)
	}
	l.same(t)
	var removed int
	for i := range uint64(9) {
		l.add(t, 10+i, 20)
		s := pass(t, k)
		removed += s.Removed
	}
	if removed < 8 {
		t.Errorf("%d files became part of others", removed)
	}
	a := l.same(t)
	l.counted(t, a)
	if a.FilesOfDay >= len(a.Files) || a.Snapshots[0] != 200 || a.Snapshots[len(a.Snapshots)-1] != 380 {
		t.Errorf("%d of %d files of a day; snapshots of %v records", a.FilesOfDay, len(a.Files), a.Snapshots)
	}
	if s, err := l.keeper(t).Status(t.Context()); err != nil || s.Added+s.Removed != 0 || s.Records != 380 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestOldSnapshots go after their time, with the table's own files, and none of the lake's.
func TestOldSnapshots(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	k := l.keeper(t)
	for i := range uint64(5) {
		l.add(t, i, 10)
		pass(t, k)
	}
	k.Keep = time.Nanosecond
	pass(t, k)
	a := l.same(t)
	l.counted(t, a)
	lists, err := filepath.Glob(filepath.Join(l.lake, "_iceberg", "security.egress", "metadata", "snap-*.avro"))
	if err != nil || len(a.Snapshots) != 1 || len(lists) != 1 {
		t.Errorf("snapshots of %v records, %d manifest lists, %v", a.Snapshots, len(lists), err)
	}
}

// TestTwoAtOnce: while one is about to commit, another does; the catalog refuses the first, which finds nothing left to do.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.keeper(t), l.keeper(t)
	for i := range uint64(3) {
		l.add(t, i, 20)
		a.during = func(step string) {
			if step == "written" {
				pass(t, b)
			}
		}
		if _, err := a.Pass(t.Context()); !errors.Is(err, ErrConflict) {
			t.Errorf("both committed: %v", err)
		}
		a.during = func(string) {}
		if s := pass(t, a); s.Added+s.Removed != 0 {
			t.Errorf("twice: %+v", s)
		}
	}
	// One that has read the table, and then nothing for long, does not make it old again.
	a.during = func(step string) {
		if step == "read" {
			l.add(t, 100, 20)
			pass(t, b)
		}
	}
	if _, err := a.Pass(t.Context()); err != nil && !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	l.counted(t, l.same(t))
}

// TestFailures: whatever the catalog refuses, or does and says that it did not, in the end each record is there once.
func TestFailures(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n, failures := 0, 0
	l.catalog.set(func(r *http.Request) fault {
		if r.Method != http.MethodPost {
			return none
		}
		n++
		return fault(n % 3)
	})
	k := l.keeper(t)
	for i := range uint64(6) {
		l.add(t, i, 15)
		for _, err := k.Pass(t.Context()); err != nil; _, err = k.Pass(t.Context()) {
			if failures++; failures > 100 {
				t.Fatal(err)
			}
			if failures%2 == 0 {
				k = l.keeper(t) // as a process that starts
			}
		}
	}
	l.catalog.set(func(*http.Request) fault { return none })
	if failures < 4 {
		t.Errorf("%d failures: nothing was tried", failures)
	}
	l.counted(t, l.same(t))
}

// TestColumnsComeLater: a table of before gets the columns that files have now, without its files being written again.
func TestColumnsComeLater(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.add(t, 1, 20)
	old := l.keeper(t)
	old.columns = slices.DeleteFunc(slices.Clone(old.columns), func(c content.Column) bool { return c.Name == "api" })
	last := &old.columns[len(old.columns)-1]
	last.Fields = slices.DeleteFunc(slices.Clone(last.Fields), func(c content.Column) bool { return c.Name == "host" })
	pass(t, old)
	l.add(t, 2, 20)
	if s := pass(t, l.keeper(t)); s.Added == 0 {
		t.Errorf("%+v", s)
	}
	l.counted(t, l.same(t))
}

// TestRefused: what cannot work is said with what to do, and no secret goes where it should not.
func TestRefused(t *testing.T) {
	t.Parallel()
	at, err := place.Parse(t.TempDir(), place.Access{})
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"NAMESPACE.NAME":     {Table: "egress", Catalog: Catalog{URL: "https://c.test"}},
		"--catalog \"\"":     {Table: "a.b"},
		"in the clear":       {Table: "a.b", Catalog: Catalog{URL: "http://c.test", Token: "/x"}},
		"do not belong":      {Table: "a.b", Catalog: Catalog{URL: "https://me:hush@c.test"}},
		"exclude each other": {Table: "a.b", Catalog: Catalog{URL: "https://c.test", Token: "/x", Credential: "/y"}},
	} {
		o.Lake = at
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", want, err)
		}
	}
	l := newLab(t)
	k := l.keeper(t)
	if _, err := k.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing was brought") {
		t.Errorf("%v", err)
	}
	l.add(t, 1, 5)
	if k, err = New(Options{Lake: l.at, Catalog: Catalog{URL: l.catalog.URL}, Table: "security.elsewhere", Location: "file:///elsewhere"}); err != nil {
		t.Fatal(err)
	}
	l.catalog.set(func(r *http.Request) fault {
		if strings.HasSuffix(r.URL.Path, "/config") {
			return refuse
		}
		return none
	})
	if _, err := k.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "is this an Iceberg REST catalog?") {
		t.Errorf("%v", err)
	}
}

const (
	childLake    = "SALLYPORT_ICEBERG_TEST_LAKE"
	childCatalog = "SALLYPORT_ICEBERG_TEST_CATALOG"
	childStep    = "SALLYPORT_ICEBERG_TEST_STEP"
)

// passUntilKilled makes a pass, says that it came to a step, and waits there until it is killed.
func passUntilKilled(where string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	at, err := place.Parse(where, place.Access{})
	fail(err)
	k, err := New(Options{Lake: at, Catalog: Catalog{URL: os.Getenv(childCatalog)}, Table: "security.egress"})
	fail(err)
	k.during = func(step string) {
		if step == os.Getenv(childStep) {
			fmt.Println(step)
			select {}
		}
	}
	_, err = k.Pass(context.Background())
	fail(err)
}

// TestKilledAtAnyPoint: a process is killed at each step of a pass; the next one leaves each file in the table once.
func TestKilledAtAnyPoint(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for i, step := range []string{"evolved", "read", "written", "committed", "read", "written", "committed"} {
		l.add(t, uint64(i), 20)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childLake+"="+l.lake, childCatalog+"="+l.catalog.URL, childStep+"="+step)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		scanner := bufio.NewScanner(out)
		came := scanner.Scan()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if !came {
			t.Errorf("it never came to %s", step)
		}
	}
	pass(t, l.keeper(t))
	l.counted(t, l.same(t))
}
