package duck

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"
)

// writing opens a file, and a writer beside.
func writing(t *testing.T) (*sql.DB, *Writer) {
	t.Helper()
	file, settings := filepath.Join(t.TempDir(), "x.duckdb"), url.Values{"threads": {"2"}, "memory_limit": {"256MB"}}
	db, err := Open(file, settings, "CREATE TABLE IF NOT EXISTS x (a VARCHAR, b UINTEGER, c UBIGINT, d TIMESTAMPTZ, e VARCHAR)", "SET enable_external_access = false", "SET lock_configuration = true")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Ping(); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWriter(file, settings)
	if err != nil {
		t.Fatal(errors.Join(err, db.Close()))
	}
	t.Cleanup(func() {
		w.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, w
}

// texts of each length around those that are within, and long ones; many are those before.
func someText(row int) string {
	switch row % 7 {
	case 0:
		return ""
	case 1, 2, 3:
		return strings.Repeat("ü", row%7*3) // 6, 12 and 18 bytes
	case 4:
		return fmt.Sprintf("%013d", row)
	case 5:
		return strings.Repeat("x", row%3000)
	}
	return fmt.Sprint("long enough not to be within, number ", row/1000)
}

// TestWriter: what is appended is what is read, over many chunks, with texts of all lengths, and texts that are longer than a block.
func TestWriter(t *testing.T) {
	db, w := writing(t)
	const rows = 3*2048 + 17
	at := time.Date(2027, 5, 1, 0, 0, 0, 0, time.UTC)
	same := func(s string) string { return s }
	err := w.Transact(func() error {
		return w.Append("x", rows, func(row int, columns []Vector, i int) {
			columns[0].Text(i, someText(row), same)
			columns[1].Number32(i, uint32(row))
			columns[2].Number64(i, math.MaxUint64-uint64(row))
			columns[3].Time(i, at.Add(time.Duration(row)*time.Microsecond))
			if row%3 == 0 {
				columns[4].Null(i)
			} else {
				columns[4].Text(i, someText(row/500), same)
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append("x", 1, func(_ int, columns []Vector, i int) {
		columns[0].Text(i, strings.Repeat("y", 2*blockSize), same)
		columns[1].Number32(i, rows)
		columns[2].Number64(i, math.MaxUint64-rows)
		columns[3].Time(i, at.Add(rows*time.Microsecond))
		columns[4].Text(i, "bad \xff", func(s string) string { return strings.ToValidUTF8(s, "?") })
	}); err != nil {
		t.Fatal(err)
	}
	found, err := db.Query("SELECT a, b, c, d, e FROM x ORDER BY b")
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	n := 0
	for ; found.Next(); n++ {
		var a string
		var e sql.NullString
		var b, c uint64
		var d time.Time
		if err := found.Scan(&a, &b, &c, &d, &e); err != nil {
			t.Fatal(err)
		}
		wantA, wantE := someText(n), sql.NullString{String: someText(n / 500), Valid: n%3 != 0}
		if !wantE.Valid {
			wantE.String = ""
		}
		if n == rows {
			wantA, wantE = strings.Repeat("y", 2*blockSize), sql.NullString{String: "bad ?", Valid: true}
		}
		if a != wantA || b != uint64(n) || c != math.MaxUint64-uint64(n) || !d.Equal(at.Add(time.Duration(n)*time.Microsecond)) || e != wantE {
			t.Fatalf("row %d: %.40q %d %d %s %v", n, a, b, c, d, e)
		}
	}
	if err := found.Err(); err != nil || n != rows+1 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestWriterRollsBack: what fails leaves nothing, says what kind of error it was, and does not keep the writer from what comes next.
func TestWriterRollsBack(t *testing.T) {
	db, w := writing(t)
	one := func(_ int, columns []Vector, i int) {
		columns[0].Text(i, "a", strings.Clone)
		columns[1].Number32(i, 1)
		columns[2].Number64(i, 1)
		columns[3].Time(i, time.Time{})
		columns[4].Null(i)
	}
	enough := errors.New("enough")
	if err := w.Transact(func() error { return errors.Join(w.Append("x", 5000, one), enough) }); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	var e *duckdb.Error
	if err := w.Transact(func() error { return w.Append("nowhere", 1, one) }); !errors.As(err, &e) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v", err)
	}
	if err := w.Transact(func() error { return w.Execute("SELECT 1/0 FROM nothing") }); !errors.As(err, &e) || e.Type != duckdb.ErrorTypeCatalog {
		t.Errorf("%v", err)
	}
	if err := w.Transact(func() error { return w.Append("x", 1, one) }); err != nil {
		t.Error(err)
	}
	var n int
	if err := db.QueryRow("SELECT count(*) FROM x").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
}
