package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// audit runs "sallyport audit ARGS" on a data folder.
func audit(t *testing.T, data string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := auditCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(append([]string{args[0], "--data", data}, args[1:]...))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// auditLog makes a data folder whose log holds two records, and no server.
func auditLog(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(data, query.StoreName), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := record.Record{Proxy: "p", Epoch: 1, Seq: 1, Time: time.Now().Add(-time.Minute), Class: record.HTTP,
		Verdict: record.Denied, Host: "a.evil.test", Workload: record.Workload{
			Principal: "spiffe://cluster.local/ns/shop/sa/cart", Namespace: "shop", ServiceAccount: "cart"},
		DecidedBy: record.Object{Kind: record.EgressPolicy, Namespace: "shop", Name: "list", Rule: "default"}}
	old := r
	old.Seq, old.Time = 2, r.Time.AddDate(0, 0, -3)
	err = errors.Join(s.Store(context.Background(), []record.Record{r, old}), s.Close())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAuditQueryJSON(t *testing.T) {
	data := auditLog(t)
	for _, tt := range []struct {
		args []string
		want int
	}{
		{nil, 1}, {[]string{"--since", "7d"}, 2}, {[]string{"--since", "7d", "--limit", "1"}, 1},
		{[]string{"--host", "*.evil.test", "--verdict", "denied", "--from", "shop/cart"}, 1},
		{[]string{"--verdict", "allowed"}, 0}, {[]string{"verdict:denied", "since:7d"}, 2}, {[]string{"--since", "7d", "--", "-host:*.evil.test"}, 0},
		{[]string{"--policy", "shop/l*", "--rule", "default"}, 1}, {[]string{"--policy", "shop/other"}, 0}, {[]string{"--rule", "one"}, 0}, {[]string{"--would-deny"}, 0},
		{[]string{"--verdict", "allowed", "--limit", "0"}, 0},
	} {
		out, said, err := audit(t, data, append([]string{"query", "-o", "json"}, tt.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		var got []record.Record
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != tt.want || got == nil {
			t.Errorf("%v: %s, %v", tt.args, out, err)
		}
		if cut := strings.Contains(said, "--limit 0 for all"); cut != slices.Contains(tt.args, "1") {
			t.Errorf("%v: that some are left out is said: %v", tt.args, cut)
		}
		if len(got) > 0 && got[0].Workload.Principal != "spiffe://cluster.local/ns/shop/sa/cart" {
			t.Errorf("%+v", got[0])
		}
	}
}

func TestAuditSQL(t *testing.T) {
	out, _, err := audit(t, auditLog(t), "sql", "SELECT host, count(*) AS n FROM records GROUP BY host", "-o", "json")
	if want := "[\n{\"host\":\"a.evil.test\",\"n\":2}\n]\n"; err != nil || out != want {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAuditExport(t *testing.T) {
	data := auditLog(t)
	for _, format := range []string{"parquet", "jsonl", "csv", "ocsf"} {
		file := filepath.Join(t.TempDir(), "log."+format)
		_, notes, err := audit(t, data, "export", file, "--format", format)
		info, statErr := os.Stat(file)
		if err != nil || statErr != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 || !strings.Contains(notes, "2 records") {
			t.Errorf("%s: %q, %v, %v, %v", format, notes, err, statErr, info)
		}
		if _, _, err := audit(t, data, "export", file, "--format", format); err == nil {
			t.Errorf("%s: the file was overwritten", format)
		}
	}
}

// breaking is a log that breaks off behind some records.
type breaking struct{ query.Source }

func (breaking) Select(_ context.Context, _ query.Filter, f func(record.Record) error) error {
	for n := range uint64(3) {
		if err := f(record.Record{Proxy: "p", Epoch: 1, Seq: n + 1, Time: time.Now(), Class: record.HTTP, Host: "a.test"}); err != nil {
			return err
		}
	}
	return errBroken
}

var errBroken = errors.New("the server is gone")

// TestAuditExportBreaksOff: half a file passes for no whole one.
func TestAuditExportBreaksOff(t *testing.T) {
	for _, format := range []string{"parquet", "jsonl", "csv", "ocsf"} {
		dir := t.TempDir()
		cmd := auditExportCommand()
		cmd.SetContext(t.Context())
		if _, err := exportAudit(cmd, breaking{}, query.Filter{}, format, filepath.Join(dir, "log")); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", format, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", format, left, err)
		}
	}
}

func TestAuditExitCodes(t *testing.T) {
	data := auditLog(t)
	for want, calls := range map[int][][]string{
		exitUsage: {
			{"query", "--since", "yesterday"}, {"query", "--verdict", "maybe"}, {"query", "--from", "a/b/c"}, {"query", "--policy", "a/b/c"},
			{"query", "--limit", "-1"}, {"query", "-o", "xml"}, {"query", "extra:word"}, {"query", "since:1h", "--since", "2h"}, {"query", "verdict:maybe"}, {"query", "--since", "1h", "--until", "2h"}, {"query", "since:1h", "until:2h"}, {"sql"}, {"sql", ""}, {"sql", "DROP TABLE records"},
			{"sql", "SELECT 1", "-o", "ocsf"}, {"export", "-"}, {"export", "x", "--format", "xml"},
			{"server", "--retention", "soon"}, {"tail", "-o", "xml"},
		},
		exitFailed: {{"tail"}},
		exitDone:   {{"query"}, {"export", "-", "--format", "csv"}},
	} {
		for _, call := range calls {
			if _, _, err := audit(t, data, call...); exitCode(err) != want {
				t.Errorf("%v: exit %d, want %d (%v)", call, exitCode(err), want, err)
			}
		}
	}
	if _, _, err := audit(t, t.TempDir(), "query"); exitCode(err) != exitFailed {
		t.Errorf("no log: %v", err)
	}
}

// TestAuditLake: a server brings its log to a lake, which answers like the server; calls that cannot work say so.
func TestAuditLake(t *testing.T) {
	data, where := auditLog(t), filepath.Join(t.TempDir(), "lake")
	if _, _, err := audit(t, data, "lake", "status"); exitCode(err) != exitFailed {
		t.Errorf("nothing was brought yet: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	cmd := auditCommand()
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"server", "--data", data, "--console-addr", "", "--detect-every", "0", "--lake", where, "--lake-region", "eu"})
	go func() { done <- cmd.ExecuteContext(ctx) }()
	var status []struct{ Records, Waiting int }
	for {
		out, _, err := audit(t, data, "lake", "status", "-o", "json")
		if err == nil {
			if err := json.Unmarshal([]byte(out), &status); err != nil || len(status) != 1 || status[0].Records != 2 || status[0].Waiting != 0 {
				t.Errorf("%s, %v", out, err)
			}
			break
		}
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	run := func(args ...string) (string, error) {
		cmd := auditCommand()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	for _, question := range [][]string{
		{"query", "--since", "7d", "-o", "csv"}, {"query", "--policy", "shop/*", "--since", "7d", "-o", "jsonl"}, {"sql", "SELECT host, count(*) FROM records GROUP BY host", "-o", "csv"},
	} {
		live, err := run(append(question, "--data", data)...)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run(append(question, "--lake", where)...); err != nil || got != live {
			t.Errorf("%v: %s, %v, want %s", question, got, err, live)
		}
	}
	if out, err := run("sql", "SELECT count(*) FROM records", "-o", "csv", "--lake", where, "--lake-since", "1d"); err != nil || !strings.HasSuffix(out, "\n1\n") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := run("lake", "status", "--lake", where); err != nil || !strings.Contains(out, "WAITING") {
		t.Errorf("%s, %v", out, err)
	}
	for _, call := range [][]string{
		{"query", "--lake", where, "--data", data}, {"query", "--lake", "http://x"}, {"query", "--lake", "s3://u:p@b"}, {"query", "--lake", where, "--lake-cache", "much"},
		{"lake", "status", "-o", "csv"}, {"server", "--data", data, "--lake", where, "--lake-every", "0"}, {"server", "--data", data, "--lake", where, "--lake-region", "a/b"},
	} {
		if _, err := run(call...); exitCode(err) != exitUsage {
			t.Errorf("%v: %v", call, err)
		}
	}
}

func TestAuditData(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("SALLYPORT_DATA", "")
	for _, tt := range []struct{ name, value, want string }{
		{"HOME", "/home/u", "/home/u/.local/state/sallyport"},
		{"XDG_STATE_HOME", "/state", "/state/sallyport"},
		{"SALLYPORT_DATA", "/data", "/data"},
	} {
		t.Setenv(tt.name, tt.value)
		if got, err := auditData(""); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
	if got, _ := auditData("/flag"); got != "/flag" {
		t.Error(got)
	}
}
