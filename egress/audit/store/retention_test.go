package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// atTimes are records of some times, in the order of their numbers from one on.
func atTimes(first uint64, times ...time.Time) (out []record.Record) {
	for i, at := range times {
		r := rec(first + uint64(i))
		r.Time = at
		out = append(out, r)
	}
	return out
}

// wantKept looks which records there are, and whether roll-ups are of as many, and of their times.
func wantKept(t *testing.T, s *Store, what, want string) {
	t.Helper()
	var kept string
	var records, rolled, days, rolledDays int
	err := s.DB().QueryRow("SELECT coalesce(string_agg(seq, ' ' ORDER BY seq), ''), count(*), (SELECT coalesce(sum(records), 0)::INTEGER FROM rollups), count(DISTINCT time), (SELECT count(DISTINCT first) FROM rollups) FROM records").
		Scan(&kept, &records, &rolled, &days, &rolledDays)
	if err != nil || kept != want || rolled != records || days != rolledDays {
		t.Errorf("%s: there are %q, want %q; of %d records roll-ups have %d, of %d times %d; %v", what, kept, want, records, rolled, days, rolledDays, err)
	}
}

// TestRetentionOfClocksAhead: a record whose own time is ahead goes a day after those that came with it, and roll-ups have what is left of its time.
func TestRetentionOfClocksAhead(t *testing.T) {
	hand := clock.At(start2027)
	s := open(t, t.TempDir(), Options{Now: hand.Now})
	far := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	year := start2027.AddDate(1, 0, 0)
	put(t, s, atTimes(1, start2027, start2027.Add(23*time.Hour), year, year.Add(time.Minute), far)...)
	hand.Advance(12 * time.Hour)
	put(t, s, atTimes(6, hand.Now(), year.Add(2*time.Minute), far)...)
	gatherNow(t, s)
	for _, step := range []struct {
		before time.Duration
		want   string
	}{
		{time.Second, "2 3 4 5 6 7 8"},
		{12*time.Hour + time.Second, "2 3 4 5 7 8"},
		{24 * time.Hour, "3 4 5 7 8"},
		{24*time.Hour + time.Second, "7 8"},
		{36*time.Hour + time.Second, ""},
	} {
		hand.Advance(24 * time.Hour)
		if _, err := s.Prune(t.Context(), start2027.Add(step.before)); err != nil {
			t.Fatal(err)
		}
		wantKept(t, s, fmt.Sprint("before ", step.before), step.want)
	}
}

// TestRetentionOfAServersClockAhead: what came in while the server's own clock was ahead goes by its own time, and what said then that it was of later
// when that comes.
func TestRetentionOfAServersClockAhead(t *testing.T) {
	hand := clock.At(start2027.AddDate(1, 0, 0))
	s := open(t, t.TempDir(), Options{Now: hand.Now})
	put(t, s, atTimes(1, start2027, start2027.AddDate(9, 0, 0))...)
	gatherNow(t, s)
	hand.Set(start2027.Add(48 * time.Hour))
	for _, step := range []struct {
		before time.Time
		want   string
	}{
		{start2027.Add(time.Second), "2"},
		{start2027.AddDate(1, 0, 1), "2"},
		{start2027.AddDate(1, 0, 1).Add(time.Second), ""},
	} {
		if step.before.After(hand.Now()) {
			hand.Set(step.before)
		}
		if _, err := s.Prune(t.Context(), step.before); err != nil {
			t.Fatal(err)
		}
		wantKept(t, s, fmt.Sprint("before ", step.before), step.want)
	}
}

// TestRetentionOfClocksAheadThatSomebodyHasToTake: they wait as others do.
func TestRetentionOfClocksAheadThatSomebodyHasToTake(t *testing.T) {
	hand := clock.At(start2027)
	s := open(t, t.TempDir(), Options{Now: hand.Now, Held: []string{"lake"}})
	year := start2027.AddDate(1, 0, 0)
	put(t, s, atTimes(1, year, start2027)...)
	gatherNow(t, s)
	at := hand.Now()
	hand.Advance(72 * time.Hour)
	for _, step := range []struct {
		release, before time.Time
		want            string
	}{{time.Time{}, hand.Now().Add(-time.Hour), "1 2"}, {at, hand.Now().Add(-time.Hour), ""}} {
		s.Release("lake", step.release)
		if _, err := s.Prune(t.Context(), step.before); err != nil {
			t.Fatal(err)
		}
		wantKept(t, s, fmt.Sprint("released ", step.release), step.want)
	}
	put(t, s, atTimes(3, year)...)
	hand.Advance(8*24*time.Hour + time.Minute)
	if n, err := s.Prune(t.Context(), hand.Now()); err != nil || n != 1 || s.Missed("lake") != 1 {
		t.Errorf("after a week: %d deleted, %d missed, %v", n, s.Missed("lake"), err)
	}
}
