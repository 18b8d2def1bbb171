package lake

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/e2e/tools"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// asEngines are questions: of the store's table, and of a lake's files as an engine finds them.
var asEngines = [][2]string{
	{"SELECT count(*), count(DISTINCT (proxy, epoch, seq)) FROM records", "SELECT count(*), count(DISTINCT unmapped.proxy, unmapped.epoch, metadata.sequence) FROM events"},
	{
		"SELECT host, count(*), sum(bytes_received) FROM records WHERE class <> 'action' GROUP BY host ORDER BY count(*) DESC, host LIMIT 10",
		"SELECT unmapped.host, count(*), sum(traffic.bytes_out) FROM events WHERE class_uid <> 6003 GROUP BY unmapped.host ORDER BY count(*) DESC, unmapped.host LIMIT 10",
	},
	{
		"SELECT namespace, count(*) FROM records WHERE verdict = 'denied' GROUP BY namespace ORDER BY namespace",
		"SELECT unmapped.namespace, count(*) FROM events WHERE disposition_id = 2 GROUP BY unmapped.namespace ORDER BY unmapped.namespace",
	},
	{"SELECT epoch_us(min(time)), epoch_us(max(time)) FROM records", "SELECT unix_micros(min(time_dt)), unix_micros(max(time_dt)) FROM events"},
	{
		"SELECT action, actor, 'sallyport ' || reporter FROM records WHERE class = 'action' ORDER BY actor",
		"SELECT api.operation, actor.user.name, api.service.name FROM events WHERE class_uid = 6003 ORDER BY actor.user.name",
	},
	{"SELECT count(*) FROM records WHERE time >= '2027-01-20'", "SELECT count(*) FROM events WHERE day >= '2027-01-20' AND time_dt >= timestamp'2027-01-20T00:00:00Z' AND region = 'eu' AND cluster = 'one'"},
}

// TestAnotherEngine: an engine that knows neither Sallyport nor the lake's log reads the same as the store has, from files of several days, before files
// are compacted and after.
func TestAnotherEngine(t *testing.T) {
	spark, err := tools.Cached("spark", "pyspark")
	if err != nil {
		t.Skip(err)
	}
	l := newLab(t)
	l.lake = filepath.Join(t.TempDir(), "lake") // its paths are globs
	p := l.place(t)
	w := l.writer(t, p)
	var people []record.Record
	for i, who := range []string{"ann", "bob"} {
		people = append(people, record.Record{Proxy: "audit", Epoch: 1, Seq: uint64(i), Time: now.Add(-time.Hour), Class: record.Action, Action: "approved", Actor: who, ActorBy: record.ByToken, Reporter: record.ReporterConsole})
	}
	l.add(t, people)
	for i := range uint64(3) {
		l.add(t, random(i, 200))
		if err := w.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.sameFor(t, spark, p)
	for i := range uint64(compactFrom) {
		l.add(t, random(100+i, 50))
		if err := w.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.contents.Files) > 60 {
		t.Errorf("nothing was compacted: %d files", len(w.contents.Files))
	}
	l.sameFor(t, spark, p)
}

// sameFor asks Spark and the store.
func (l *lab) sameFor(t *testing.T, spark string, p place.Place) {
	t.Helper()
	var statements strings.Builder
	var want [][][]string
	for _, q := range asEngines {
		statements.WriteString(q[1] + "\n")
		want = append(want, l.texts(t, q[0]))
	}
	home := filepath.Dir(spark)
	libraries, err := filepath.Glob(filepath.Join(home, "lib", "py4j-*.zip"))
	if err != nil || len(libraries) != 1 {
		t.Fatal(libraries, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", "testdata/spark.py", p.String(), t.TempDir())
	cmd.Env = append(os.Environ(), "PYTHONPATH="+home+":"+libraries[0], "SPARK_HOME="+filepath.Join(home, "deps"), "PYSPARK_PYTHON=python3")
	cmd.Stdin = strings.NewReader(statements.String())
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %.3000s", err, errs.String())
	}
	var got [][][]string
	for line := range strings.Lines(string(out)) {
		var answer [][]string
		if err := json.Unmarshal([]byte(line), &answer); err != nil {
			t.Fatal(err)
		}
		got = append(got, answer)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the store, and Spark: %s", diff)
	}
}

// texts are the store's rows.
func (l *lab) texts(t *testing.T, statement string) (out [][]string) {
	t.Helper()
	rows, err := l.store.DB().QueryContext(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		cells, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		row := make([]string, len(cells))
		for i, c := range cells {
			row[i] = fmt.Sprint(c)
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
