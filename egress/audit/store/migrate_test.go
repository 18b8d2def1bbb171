package store

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// The tables as they were before versions were written down, and what the second version added.
const (
	oldest = `CREATE TABLE records (proxy VARCHAR, epoch UBIGINT, seq UBIGINT, time TIMESTAMPTZ, class VARCHAR, verdict VARCHAR, path VARCHAR, reporter VARCHAR,
		principal VARCHAR, namespace VARCHAR, service_account VARCHAR, workload VARCHAR, source VARCHAR, host VARCHAR, port UINTEGER, sni VARCHAR, authority VARCHAR,
		destination VARCHAR, protocol VARCHAR, method VARCHAR, url_path VARCHAR, status UINTEGER, cluster VARCHAR, route VARCHAR, decided_by_kind VARCHAR,
		decided_by_namespace VARCHAR, decided_by_name VARCHAR, decided_by_rule VARCHAR, reason VARCHAR, bytes_sent UBIGINT, bytes_received UBIGINT,
		duration_ns BIGINT, flags VARCHAR, lost UBIGINT, ingested TIMESTAMPTZ);
		CREATE TABLE spools (proxy VARCHAR, epoch UBIGINT, version UBIGINT, spans VARCHAR, updated TIMESTAMPTZ)`
	later  = `ALTER TABLE records ADD COLUMN claim VARCHAR; ALTER TABLE records ADD COLUMN forwarded_for VARCHAR; ALTER TABLE records ADD COLUMN cut VARCHAR`
	second = `ALTER TABLE records ADD COLUMN direction VARCHAR; ALTER TABLE records ADD COLUMN labels VARCHAR; ALTER TABLE records ADD COLUMN dialled VARCHAR;
		ALTER TABLE records ADD COLUMN destination_principal VARCHAR; ALTER TABLE records ADD COLUMN destination_namespace VARCHAR;
		ALTER TABLE records ADD COLUMN destination_service_account VARCHAR; ALTER TABLE records ADD COLUMN destination_workload VARCHAR;
		ALTER TABLE records ADD COLUMN destination_labels VARCHAR; ALTER TABLE records ADD COLUMN decided_by_revision VARCHAR;
		CREATE TABLE schema_versions (version INTEGER, since TIMESTAMPTZ); INSERT INTO schema_versions VALUES (1, now()), (2, now())`
	fill = `INSERT INTO records BY NAME SELECT 'sidecar~10.0.0.1~a.b~b' AS proxy, 7 AS epoch, seq, TIMESTAMPTZ '2027-01-02 03:04:05.000006+00' + to_seconds(seq) AS time,
		'http' AS class, 'allowed' AS verdict, '' AS path, '' AS reporter, '' AS principal, '' AS namespace, '' AS service_account, '' AS workload, '' AS source,
		'h' || seq || '.test' AS host, 443 AS port, '' AS sni, '' AS authority, '' AS destination, '' AS protocol, '' AS method, '' AS url_path, 0 AS status,
		'' AS cluster, '' AS route, '' AS decided_by_kind, '' AS decided_by_namespace, '' AS decided_by_name, '' AS decided_by_rule, '' AS reason,
		0 AS bytes_sent, 0 AS bytes_received, 0 AS duration_ns, '' AS flags, 0 AS lost, now() AS ingested FROM generate_series(1, 5000) t(seq);
		INSERT INTO spools VALUES ('sidecar~10.0.0.1~a.b~b', 7, 1, '1-5000', now())`
)

// The fifth version, whose records are made of parts, with an outcome that says who decided, and the same records in it.
const (
	fifth = `CREATE TABLE spools (proxy VARCHAR, epoch UBIGINT, version UBIGINT, spans VARCHAR, updated TIMESTAMPTZ);
		CREATE TABLE schema_versions (version INTEGER, since TIMESTAMPTZ); INSERT INTO schema_versions SELECT range, now() FROM range(1, 6);
		CREATE TABLE record_outcomes (id UBIGINT, since TIMESTAMPTZ, class VARCHAR, verdict VARCHAR, path VARCHAR, direction VARCHAR, method VARCHAR, status UINTEGER, decided_by_kind VARCHAR,
		decided_by_namespace VARCHAR, decided_by_name VARCHAR, decided_by_rule VARCHAR, decided_by_revision VARCHAR, reason VARCHAR, allowed_by_kind VARCHAR, allowed_by_namespace VARCHAR,
		allowed_by_name VARCHAR, allowed_by_rule VARCHAR, allowed_by_revision VARCHAR, would_deny_kind VARCHAR, would_deny_namespace VARCHAR, would_deny_name VARCHAR, would_deny_rule VARCHAR,
		would_deny_revision VARCHAR, actor VARCHAR, actor_by VARCHAR, action VARCHAR, flags VARCHAR, cut VARCHAR);
		CREATE TABLE record_reporters (id UBIGINT, since TIMESTAMPTZ, proxy VARCHAR, epoch UBIGINT, reporter VARCHAR);
		CREATE TABLE record_senders (id UBIGINT, since TIMESTAMPTZ, principal VARCHAR, namespace VARCHAR, service_account VARCHAR, workload VARCHAR, labels VARCHAR, claim VARCHAR,
		source_address VARCHAR, forwarded_for VARCHAR);
		CREATE TABLE record_targets (id UBIGINT, since TIMESTAMPTZ, host VARCHAR, port UINTEGER, sni VARCHAR, authority VARCHAR, dialled VARCHAR, destination VARCHAR,
		destination_principal VARCHAR, destination_namespace VARCHAR, destination_service_account VARCHAR, destination_workload VARCHAR, destination_labels VARCHAR, protocol VARCHAR,
		cluster VARCHAR, route VARCHAR);
		CREATE TABLE record_rows (ingested TIMESTAMPTZ, reporter_id UBIGINT, sender_id UBIGINT, target_id UBIGINT, outcome_id UBIGINT, source_port UINTEGER, seq UBIGINT, time TIMESTAMPTZ,
		url_path VARCHAR, bytes_sent UBIGINT, bytes_received UBIGINT, duration_ns BIGINT, lost UBIGINT);
		CREATE TABLE record_whole (proxy VARCHAR, epoch UBIGINT, seq UBIGINT, time TIMESTAMPTZ, class VARCHAR, verdict VARCHAR, path VARCHAR, reporter VARCHAR, direction VARCHAR,
		principal VARCHAR, namespace VARCHAR, service_account VARCHAR, workload VARCHAR, labels VARCHAR, source VARCHAR, claim VARCHAR, forwarded_for VARCHAR, host VARCHAR, port UINTEGER,
		sni VARCHAR, authority VARCHAR, dialled VARCHAR, destination VARCHAR, destination_principal VARCHAR, destination_namespace VARCHAR, destination_service_account VARCHAR,
		destination_workload VARCHAR, destination_labels VARCHAR, protocol VARCHAR, method VARCHAR, url_path VARCHAR, status UINTEGER, cluster VARCHAR, route VARCHAR, decided_by_kind VARCHAR,
		decided_by_namespace VARCHAR, decided_by_name VARCHAR, decided_by_rule VARCHAR, decided_by_revision VARCHAR, reason VARCHAR, allowed_by_kind VARCHAR, allowed_by_namespace VARCHAR,
		allowed_by_name VARCHAR, allowed_by_rule VARCHAR, allowed_by_revision VARCHAR, would_deny_kind VARCHAR, would_deny_namespace VARCHAR, would_deny_name VARCHAR, would_deny_rule VARCHAR,
		would_deny_revision VARCHAR, actor VARCHAR, actor_by VARCHAR, action VARCHAR, bytes_sent UBIGINT, bytes_received UBIGINT, duration_ns BIGINT, flags VARCHAR, lost UBIGINT, cut VARCHAR,
		ingested TIMESTAMPTZ);
		CREATE VIEW records AS SELECT * EXCLUDE (id, since, reporter_id, sender_id, target_id, outcome_id, source_port, source_address),
		source_address || coalesce(':' || source_port, '') AS source FROM record_rows JOIN record_reporters r ON r.id = reporter_id JOIN record_senders s ON s.id = sender_id
		JOIN record_targets t ON t.id = target_id JOIN record_outcomes o ON o.id = outcome_id;
		CREATE VIEW record_arrivals AS SELECT time, ingested FROM record_rows UNION ALL SELECT time, ingested FROM record_whole`
	fillFifth = `INSERT INTO record_outcomes BY NAME SELECT 1 AS id, now() AS since, 'http' AS class, 'allowed' AS verdict, '' AS path, '' AS method, 0 AS status, '' AS decided_by_kind,
		'' AS decided_by_namespace, '' AS decided_by_name, '' AS decided_by_rule, '' AS reason, '' AS flags;
		INSERT INTO record_reporters VALUES (1, now(), 'sidecar~10.0.0.1~a.b~b', 7, '');
		INSERT INTO record_senders VALUES (1, now(), '', '', '', '', NULL, '', '', '');
		INSERT INTO record_targets BY NAME SELECT n AS id, now() AS since, 'h' || n || '.test' AS host, 443 AS port, '' AS sni, '' AS authority, '' AS destination, '' AS protocol,
		'' AS cluster, '' AS route FROM generate_series(1, 5000) t(n);
		INSERT INTO record_rows SELECT now(), 1, 1, n, 1, NULL, n, TIMESTAMPTZ '2027-01-02 03:04:05.000006+00' + to_seconds(n), '', 0, 0, 0, 0 FROM generate_series(1, 5000) t(n);
		INSERT INTO spools VALUES ('sidecar~10.0.0.1~a.b~b', 7, 1, '1-5000', now())`
)

// oldFolder makes a folder as an older version left it, with 5000 records. It came in at start2027, which is now() in the statements.
func oldFolder(t testing.TB, statements ...string) string {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("duckdb", filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	filling := fill
	if statements[0] == fifth {
		filling = fillFifth
	}
	for _, statement := range append(slices.Clone(statements), filling) {
		if _, err := db.Exec(strings.ReplaceAll(statement, "now()", "TIMESTAMPTZ '"+start2027.Format("2006-01-02 15:04:05.999999Z07:00")+"'")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// wholeRecord has something in each field.
func wholeRecord(seq uint64) record.Record {
	r := rec(seq)
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.String:
				f.SetString(fmt.Sprintf("%s ü %d", v.Type().Field(i).Name, i))
			case reflect.Uint32, reflect.Uint64:
				f.SetUint(uint64(i) + 1<<31)
			case reflect.Int64:
				f.SetInt((int64(i) + 1<<40) * 1000) // durations have whole microseconds
			case reflect.Slice:
				f.Set(reflect.ValueOf([]string{"A", "B"}))
			case reflect.Struct:
				if f.Type() != reflect.TypeFor[time.Time]() {
					fill(f)
				}
			}
		}
	}
	was := r
	fill(reflect.ValueOf(&r).Elem())
	r.Proxy, r.Epoch, r.Seq, r.Class = was.Proxy, was.Epoch, was.Seq, was.Class
	return r
}

// wantOld looks for the records of an old folder, and that nothing came twice.
func wantOld(t *testing.T, s *Store) {
	t.Helper()
	got := all(t, s.DB())
	if diff := cmp.Diff(recs(1, 5000), got); diff != "" {
		t.Fatalf("%.2000s", diff)
	}
	whole := wholeRecord(5001)
	put(t, s, append(recs(4990, 5000), whole)...) // the old ones are copies
	if got = all(t, s.DB()); len(got) != 5001 || cmp.Diff(whole, got[5000]) != "" {
		t.Fatalf("%d records, %s", len(got), cmp.Diff(whole, got[len(got)-1]))
	}
	wantRows(t, s, 5001)
}

func TestOldFolders(t *testing.T) {
	interim := strings.Replace(later, "ALTER TABLE records ADD COLUMN cut", "ALTER TABLE records ADD COLUMN decided_by_revision VARCHAR; ALTER TABLE records ADD COLUMN cut", 1)
	for name, statements := range map[string][]string{"the first": {oldest}, "with claims": {oldest, later}, "in another order": {oldest, interim}, "the second": {oldest, later, second}, "the fifth": {fifth}} {
		t.Run(name, func(t *testing.T) {
			dir := oldFolder(t, statements...)
			db, err := OpenReadOnly(t.Context(), dir, Options{}) // somebody asks before anything writes
			if err != nil {
				t.Fatal(err)
			}
			if got := all(t, db); len(got) != 5000 {
				t.Errorf("%d records", len(got))
			}
			if _, err := db.Exec("DELETE FROM records"); err == nil {
				t.Error("the read-only database was written")
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir, Options{})
			wantOld(t, s)
			var versions string
			if err := s.DB().QueryRow("SELECT string_agg(version, ',' ORDER BY version) FROM schema_versions").Scan(&versions); err != nil || versions != "1,2,3,4,5,6" {
				t.Errorf("versions %q, %v", versions, err)
			}
		})
	}
}

// TestNewerFolder: what a newer version wrote is left alone.
func TestNewerFolder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	put(t, s, recs(1, 3)...)
	if _, err := s.DB().Exec("INSERT INTO schema_versions VALUES (?, now())", folderVersion+1); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() error{
		"for writing": func() error { _, err := Open(t.Context(), dir, Options{}); return err },
		"for reading": func() error { _, err := OpenReadOnly(t.Context(), dir, Options{}); return err },
	} {
		var newer NewerError
		if err := open(); !errors.As(err, &newer) || !strings.Contains(err.Error(), "newer version of sallyport") {
			t.Errorf("%s: %v", name, err)
		}
	}
	db, err := sql.Open("duckdb", filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if n, _ := count(t, db); n != 3 {
		t.Errorf("%d records", n)
	}
}

// TestForeignColumn: a table that somebody changed is not written by guess.
func TestForeignColumn(t *testing.T) {
	for _, change := range []string{"ALTER TABLE record_rows ADD COLUMN mine VARCHAR", "ALTER TABLE record_senders ADD COLUMN mine VARCHAR", "ALTER TABLE record_targets DROP COLUMN mine"} {
		dir := t.TempDir()
		if err := open(t, dir, Options{}).Close(); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("duckdb", filepath.Join(dir, FileName))
		if err != nil {
			t.Fatal(err)
		}
		name := "mine"
		if strings.Contains(change, "DROP") {
			name = "route"
			_, err = db.Exec("DROP VIEW records; " + strings.Replace(change, "mine", name, 1))
		} else {
			_, err = db.Exec(change)
		}
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		if s, err := Open(t.Context(), dir, Options{}); err == nil || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%v", err)
			if err == nil {
				_ = s.Close()
			}
		}
	}
}

// The ways in which a child is broken off in a migration.
const (
	childMigrates = "SALLYPORT_STORE_TEST_MIGRATES"
	childStep     = "SALLYPORT_STORE_TEST_STEP"
)

// migrateUntilKilled says when it is in the middle, and waits there; or it does so on a disk that takes nothing more.
func migrateUntilKilled(dir string) {
	step := 0
	during = func(string) {
		if step++; fmt.Sprint(step) == os.Getenv(childStep) {
			fmt.Println("in the middle")
			select {}
		}
	}
	if os.Getenv(childStep) == "full" {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: 1}); err != nil {
			fmt.Println("no limit:", err)
			return
		}
	}
	s, err := Open(context.Background(), dir, Options{})
	if err == nil && os.Getenv(childStep) == "committed" {
		fmt.Println("in the middle") // of nothing, but for DuckDB, which has all of it in its log
		select {}
	}
	if err == nil {
		err = errors.Join(errors.New("it was opened"), s.Close())
	}
	fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
}

// TestBrokenOffMigration: killed in the middle, or on a full disk, it leaves the folder as it was.
func TestBrokenOffMigration(t *testing.T) {
	for from, tt := range map[string]struct{ statements, steps []string }{
		"the first version":  {[]string{oldest, later}, []string{"1", "4", "12", "24", "25", "29", "31", "33", "full", "committed"}},
		"the second version": {[]string{oldest, later, second}, []string{"1", "10", "14", "19", "full"}},
		"the fifth version":  {[]string{fifth}, []string{"1", "2", "3", "7", "8", "12", "13", "16", "full", "committed"}},
	} {
		for _, step := range tt.steps {
			t.Run(from+", "+step, func(t *testing.T) {
				dir := oldFolder(t, tt.statements...)
				breakOff(t, dir, step)
				wantOld(t, open(t, dir, Options{}))
			})
		}
	}
}

// breakOff has a child migrate the folder, and kills it in that step.
func breakOff(t *testing.T, dir, step string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMigrates+"="+dir, childStep+"="+step)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	switch said := lines.Text(); {
	case step == "full":
		if !strings.Contains(said, "audit store") {
			t.Errorf("on a full disk: %s", said)
		}
	case said != "in the middle":
		t.Errorf("the child said %q", said)
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// TestOldParquet: days that an older version wrote are read beside new ones.
func TestOldParquet(t *testing.T) {
	dir := oldFolder(t, oldest, later)
	old, now := filepath.Join(dir, "old.parquet"), filepath.Join(dir, "now.parquet")
	db, err := sql.Open("duckdb", filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("COPY (SELECT * EXCLUDE ingested FROM records) TO '" + old + "' (FORMAT parquet, COMPRESSION zstd)"); err != nil {
		t.Fatal(err)
	}
	w, err := NewParquetWriter(t.Context(), now, UsualMemory)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	whole := wholeRecord(6000)
	if err := w.Write(t.Context(), append(recs(5001, 5999), whole)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, files := range []string{"'" + old + "', '" + now + "'", "'" + now + "', '" + old + "'"} {
		rows, err := db.Query("SELECT " + Columns() + " FROM read_parquet([" + files + "], union_by_name = true) ORDER BY seq")
		if err != nil {
			t.Fatal(err)
		}
		var got []record.Record
		for rows.Next() {
			r, err := ScanRecord(rows)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(recs(1, 5999), whole), got); diff != "" {
			t.Errorf("%.1000s", diff)
		}
	}
}
