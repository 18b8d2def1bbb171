package spool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestFullDisk: each record is on a really full disk or in the count of a gap, whether it came alone or with others, and the file is whole.
func TestFullDisk(t *testing.T) {
	for name, many := range map[string]int{"one by one": 1, "many at once": 37} {
		t.Run(name, func(t *testing.T) {
			disk := world.SmallDisk(t, "size=256k")
			ballast := filepath.Join(disk, "ballast")
			if err := os.WriteFile(ballast, make([]byte, 100<<10), 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, filepath.Join(disk, "spool"), Limits{MaxBytes: 1 << 20})
			appended := 0
			put := func() error {
				var some []record.Record
				for range many {
					some = append(some, rec(appended))
					appended++
				}
				return s.Append(some...)
			}
			for put() == nil {
				if room := s.Room(); room < 0 || room > 156<<10 {
					t.Fatalf("room for %d bytes", room)
				}
				if appended > 100_000 {
					t.Fatal("the disk does not become full")
				}
			}
			for range 10 {
				if put() == nil {
					t.Fatal("written to a full disk")
				}
			}
			if room := s.Room(); room != 0 {
				t.Errorf("on a full disk there is room for %d bytes", room)
			}
			last := s.segments[len(s.segments)-1]
			if seg, broken, err := scan(last.path, last.first); err != nil || broken != 0 || seg.next != last.next {
				t.Errorf("the file ends with %d broken bytes at %d, the spool is at %d, %v", broken, seg.next, last.next, err)
			}
			if st := s.Stats(); int(st.Appended+st.WriteErrors) != appended {
				t.Errorf("%d appended + %d lost, want %d", st.Appended, st.WriteErrors, appended)
			}
			if err := s.Close(); err != nil { // on the full disk: what is lost is told after the restart
				t.Fatal(err)
			}
			s = open(t, filepath.Join(disk, "spool"), Limits{MaxBytes: 1 << 20})
			if room := s.Room(); room != 0 {
				t.Errorf("after a restart on a full disk there is room for %d bytes", room)
			}
			if put() == nil {
				t.Fatal("written to a full disk")
			}
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			if room := s.Room(); room < 90<<10 { // it tells the loss, too
				t.Errorf("on a disk with room again there is room for %d bytes", room)
			}
			if err := put(); err != nil {
				t.Fatal(err)
			}
			all := drain(t, s)
			lost := 0
			for _, r := range all {
				lost += int(r.Count)
			}
			if kept := len(hosts(all)); kept+lost != appended || lost == 0 || kept == 0 {
				t.Errorf("%d kept + %d lost, want %d", kept, lost, appended)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s = open(t, filepath.Join(disk, "spool"), Limits{MaxBytes: 1 << 20}); len(s.owed) > 0 || s.noted > 0 {
				t.Errorf("it is told twice: %+v", s.owed)
			}
		})
	}
}
