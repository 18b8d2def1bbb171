package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/e2e/tools"
)

// asSpark are questions: of the store, and of the table.
var asSpark = [][2]string{
	{"SELECT count(*), count(DISTINCT (proxy, epoch, seq)) FROM records", "SELECT count(*), count(DISTINCT unmapped.proxy, unmapped.epoch, metadata.sequence) FROM egress"},
	{
		"SELECT host, count(*), sum(bytes_received), max(port) FROM records GROUP BY host ORDER BY host",
		"SELECT unmapped.host, count(*), sum(traffic.bytes_out), max(unmapped.port) FROM egress GROUP BY unmapped.host ORDER BY unmapped.host",
	},
	{"SELECT epoch_us(min(time)), epoch_us(max(time)) FROM records", "SELECT unix_micros(min(time_dt)), unix_micros(max(time_dt)) FROM egress"},
	{"SELECT count(*) FROM records WHERE time >= '2027-01-20 00:00:00+00'", "SELECT count(*) FROM egress WHERE day = date'2027-01-20' AND region = 'eu' AND cluster = 'one' AND time_dt >= timestamp'2027-01-20T00:00:00Z'"},
	{"SELECT action, actor FROM records WHERE class = 'action' ORDER BY epoch", "SELECT api.operation, actor.user.name FROM egress WHERE class_uid = 6003 ORDER BY unmapped.epoch"},
}

// TestSpark: Iceberg's own library reads the same from the table as the store has, after files became others.
func TestSpark(t *testing.T) {
	spark, err := tools.Cached("spark", "pyspark")
	if err != nil {
		t.Skip(err)
	}
	jar, err := tools.Cached("icebergspark", "runtime.jar")
	if err != nil {
		t.Skip(err)
	}
	l := newLab(t)
	k := l.keeper(t)
	removed := 0
	for i := range uint64(10) {
		l.add(t, i, 20)
		removed += pass(t, k).Removed
	}
	var statements strings.Builder
	var want []string
	for _, q := range asSpark {
		statements.WriteString(q[1] + "\n")
		rows := l.rows(t, q[0])
		texts := make([][]string, len(rows))
		for i, row := range rows {
			for _, cell := range row {
				texts[i] = append(texts[i], fmt.Sprint(cell))
			}
		}
		line, err := json.Marshal(texts)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(line))
	}
	home := filepath.Dir(spark)
	libraries, err := filepath.Glob(filepath.Join(home, "lib", "py4j-*.zip"))
	if err != nil || len(libraries) != 1 {
		t.Fatal(libraries, err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "testdata/spark.py", l.catalog.URL, jar, t.TempDir())
	cmd.Env = append(os.Environ(), "PYTHONPATH="+home+":"+libraries[0], "SPARK_HOME="+filepath.Join(home, "deps"), "PYSPARK_PYTHON=python3")
	cmd.Stdin = strings.NewReader(statements.String())
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %.3000s", err, errs.String())
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, q := range asSpark {
		var a, b any
		if i >= len(got) || json.Unmarshal([]byte(got[i]), &a) != nil || json.Unmarshal([]byte(want[i]), &b) != nil || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%s: %v, and the store says %v", q[1], a, b)
		}
	}
	if removed == 0 {
		t.Error("no file became part of another")
	}
}
