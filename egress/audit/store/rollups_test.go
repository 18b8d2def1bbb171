package store

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/clock"
)

// sightings are those of a store.
func sightings(t *testing.T, s *Store) string {
	t.Helper()
	relation, err := Sightings(t.Context(), s.DB())
	if err != nil {
		t.Fatal(err)
	}
	return relation
}

// wantRolled looks whether roll-ups and sightings are of so many records.
func wantRolled(t *testing.T, s *Store, want int) {
	t.Helper()
	var rolled, seen, records, beside int
	err := s.DB().QueryRow(`SELECT (SELECT coalesce(sum(records), 0)::INTEGER FROM rollups), (SELECT coalesce(sum(records), 0)::INTEGER FROM `+sightings(t, s)+`), (SELECT count(*) FROM records),
		(SELECT count(*) FROM records WHERE ingested > (SELECT until FROM rollups_state))`).Scan(&rolled, &seen, &records, &beside)
	if err != nil || rolled+beside != want || seen != want || records != want {
		t.Errorf("roll-ups are of %d records and %d come beside, sightings of %d, and there are %d; want %d of each; %v", rolled, beside, seen, records, want, err)
	}
}

// TestRollupsOfOlderFolders: where an older version wrote, roll-ups and sightings are made anew; so they are where there were none.
func TestRollupsOfOlderFolders(t *testing.T) {
	for name, left := range map[string]string{
		"of before there were any": "DROP VIEW rollups; DROP TABLE rollup_rows; DROP TABLE rollup_kinds; DROP TABLE rollups_state; DROP TABLE sighting_rows; UPDATE inputs_state SET version = 2",
		"of one table":             "CREATE TABLE one AS FROM rollups; DROP VIEW rollups; DROP TABLE rollup_rows; DROP TABLE rollup_kinds; ALTER TABLE one RENAME TO rollups; UPDATE inputs_state SET version = 3",
		"used by an older version": "DELETE FROM record_rows WHERE nth + ahead <= 5; UPDATE inputs_state SET version = 2",
		"of other inputs":          "DELETE FROM record_rows WHERE nth + ahead <= 5; DROP TABLE inputs; UPDATE inputs_state SET version = 1",
		"of inputs without kinds":  "CREATE TABLE one AS SELECT * EXCLUDE (id, kind) FROM inputs JOIN input_kinds ON id = kind; DROP TABLE inputs; DROP TABLE input_kinds; ALTER TABLE one RENAME TO inputs; UPDATE inputs_state SET version = 4",
		"of sightings by texts":    "DROP TABLE sighting_rows; CREATE TABLE sightings (namespace VARCHAR); UPDATE inputs_state SET version = 5",
		"that one of these took":   "DELETE FROM sighting_rows WHERE kind % 2 = 0; CREATE TABLE sightings (namespace VARCHAR); UPDATE inputs_state SET version = 5",
		"that an older one took":   "CREATE TABLE one AS SELECT * EXCLUDE (id, kind) FROM inputs JOIN input_kinds ON id = kind; DROP TABLE inputs; ALTER TABLE one RENAME TO inputs; UPDATE inputs_state SET version = 4",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Options{})
			put(t, s, recs(1, 20)...)
			gatherNow(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			db, err := connect(t.Context(), filepath.Join(dir, FileName), false, Options{}.withDefaults())
			if err != nil {
				t.Fatal(err)
			}
			_, err = db.Exec(left)
			var n int
			if err := errors.Join(err, db.QueryRow("SELECT count(*) FROM records").Scan(&n), db.Close()); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, Options{})
			wantRolled(t, s, n)
			put(t, s, recs(21, 22)...)
			gatherNow(t, s)
			wantRolled(t, s, n+2)
		})
	}
}

// TestRollupsGoWithTheirRecords: what is deleted by its age is not in roll-ups any more; what is held, or came late, is.
func TestRollupsGoWithTheirRecords(t *testing.T) {
	hand := clock.At(start2027)
	s := open(t, t.TempDir(), Options{Now: hand.Now, Held: []string{"lake"}})
	put(t, s, recs(1, 3000)...) // 50 minutes
	gatherNow(t, s)
	at := hand.Now()
	hand.Advance(48 * time.Hour)
	late := recs(3001, 3010) // of the same time, which came two days later
	put(t, s, late...)
	gatherNow(t, s)
	for _, step := range []struct {
		release time.Time
		before  time.Duration // of the records' time
		want    int
	}{
		{time.Time{}, 20 * time.Minute, 3010}, // the lake has none of them
		{at, 20 * time.Minute, 3010 - 20*60 + 1},
		{at, 21*time.Minute + 30*time.Second, 3010 - 20*60 - 90 + 1},
		{at, time.Hour + time.Minute, 10},
	} {
		s.Release("lake", step.release)
		if _, err := s.Prune(t.Context(), start2027.Add(step.before)); err != nil {
			t.Fatal(err)
		}
		var rolled int
		if err := s.DB().QueryRow("SELECT sum(records)::INTEGER FROM rollups").Scan(&rolled); err != nil || rolled != step.want {
			t.Errorf("before %s: roll-ups are of %d records, want %d, %v", step.before, rolled, step.want, err)
		}
		if n, _ := count(t, s.DB()); n != step.want {
			t.Errorf("before %s: %d records, want %d", step.before, n, step.want)
		}
	}
}
