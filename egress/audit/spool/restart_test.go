package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestStartsOnAFullDisk: a host that is started anew with a full disk has its spool; nothing can be appended until there is room, what was lost is counted, also over one more start, and no record has an epoch that
// is not on the disk.
func TestStartsOnAFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		fill    func(ballast string) error
	}{
		"no bytes": {"size=256k", func(ballast string) error {
			return os.WriteFile(filepath.Join(ballast, "all"), make([]byte, 1<<20), 0o600)
		}},
		"no files": {"size=256k,nr_inodes=20", func(ballast string) error {
			for i := 0; ; i++ {
				if err := os.WriteFile(filepath.Join(ballast, fmt.Sprint(i)), nil, 0o600); err != nil {
					return err
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			disk := world.SmallDisk(t, c.options)
			dir, ballast := filepath.Join(disk, "spool"), filepath.Join(disk, "ballast")
			start := func(boot string) *Spool {
				return open(t, dir, Limits{MaxBytes: 1 << 20, BootID: func() string { return boot }})
			}
			end := func(s *Spool) {
				t.Helper()
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s := start("boot-1")
			appendN(t, s, 0, 3)
			first := s.Stats().Epoch
			torn := s.segments[0].path
			end(s)
			f, err := os.OpenFile(torn, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString("torn"); errors.Join(err, f.Close()) != nil { // so that another segment has to begin
				t.Fatal(err)
			}
			if err := os.Mkdir(ballast, 0o700); err != nil {
				t.Fatal(err)
			}
			if c.fill(ballast) == nil {
				t.Fatal("the disk does not become full")
			}

			s = start("boot-2")
			if room := s.Room(); room != 0 {
				t.Errorf("there is room for %d bytes", room)
			}
			if s.Append(rec(3)) == nil || s.Append(rec(4)) == nil {
				t.Error("appended to a full disk")
			}
			if got := s.Stats().WriteErrors; got != 2 {
				t.Errorf("%d are counted as lost", got)
			}
			end(s)
			s = start("boot-2")
			if room := s.Room(); room != 0 {
				t.Errorf("after one more start there is room for %d bytes", room)
			}
			if err := os.RemoveAll(ballast); err != nil {
				t.Fatal(err)
			}
			if s.Room() == 0 {
				t.Error("no room where there is")
			}
			appendN(t, s, 5, 6)
			epoch := s.Stats().Epoch
			all := drain(t, s)
			lost := uint64(0)
			for _, r := range all {
				lost += r.Count
				if old := r.Class != record.Gap && r.Host != "h5.example.com"; old != (r.Epoch == first) || !old && r.Epoch != epoch {
					t.Errorf("%s %s has the epoch %d; they were %d and %d", r.Class, r.Host, r.Epoch, first, epoch)
				}
			}
			if kept := hosts(all); len(kept) != 4 || lost != 3 || epoch <= first { // the torn bytes, and two
				t.Errorf("kept %v, lost %d, in epochs %d and %d", kept, lost, first, epoch)
			}
			end(s)
			if s = start("boot-2"); s.Stats().Epoch != epoch {
				t.Errorf("the epoch %d was not kept: %d", epoch, s.Stats().Epoch)
			}
		})
	}
}
