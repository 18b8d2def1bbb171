package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sallyport/sallyport/egress/audit/presence"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/audit/store/server"
	"github.com/sallyport/sallyport/egress/detect"
	"github.com/sallyport/sallyport/egress/detect/watch"
)

// detects runs "sallyport detect ARGS".
func detects(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := detectCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// deniedLog makes a data folder whose log has a burst of denials to a host that is not nice to terminals.
func deniedLog(t *testing.T) string {
	t.Helper()
	data := filepath.Join(tempDir(t), "d")
	s, err := store.Open(t.Context(), filepath.Join(data, query.StoreName), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var records []record.Record
	for i := range 30 {
		records = append(records, record.Record{Proxy: "p", Epoch: 1, Seq: uint64(i), Time: time.Now().Add(-time.Hour), Class: record.HTTP, Verdict: record.Denied,
			Host: "a'.\x1b[31mevil.test", Port: 443, Workload: record.Workload{Namespace: "shop", ServiceAccount: "cart"}})
	}
	records[0].AllowedBy = record.Object{Kind: record.EgressPolicy, Namespace: "shop", Name: "list", Rule: "soon"}
	if err := errors.Join(s.Store(context.Background(), records), s.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

// tempDir is short enough for sockets.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "det") //nolint:usetesting // t.TempDir is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func writeText(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDetect: the file of a log and its server give the same.
func TestDetect(t *testing.T) {
	data := deniedLog(t)
	file, _, err := detects(t, "--data", data, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan bool, 1), make(chan error, 1)
	go func() {
		done <- server.Run(ctx, server.Options{Data: data, Ready: func(string, string) { ready <- true }})
	}()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	served, _, err := detects(t, "--data", data, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{file, served} {
		var report detect.Report
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			t.Fatal(err)
		}
		if len(report.Findings) != 1 || report.Findings[0].Detection != "denied-burst" || report.Findings[0].Count != 30 || report.Findings[0].Who() != "shop/cart" ||
			fmt.Sprint(report.Findings[0].Evidence["peak"]) != "30" || len(report.Skipped) != 4 || len(report.Failed) != 0 {
			t.Errorf("%s", text)
		}
	}
	unheard := func() (string, string) {
		t.Helper()
		out, said, err := detects(t, "--data", data, "--only", "unheard-proxies", "--set", "unheard-proxies.alone=1", "--set", "unheard-proxies.connected=0s")
		if err != nil {
			t.Fatal(err)
		}
		return out, said
	}
	if out, said := unheard(); strings.Contains(out, "mute") || !strings.Contains(said, "no controller has told the audit server") {
		t.Errorf("%s%s", out, said)
	}
	conn, err := grpc.NewClient("unix:"+filepath.Join(data, query.SocketName), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := presence.Tell(t.Context(), conn, "c", []presence.Proxy{{ID: "p"}, {ID: "sidecar~10.0.0.1~mute-0.shop~shop.svc"}}); err != nil {
		t.Fatal(err)
	}
	if out, said := unheard(); !strings.Contains(out, "shop/mute") || strings.Contains(said, "skipped") {
		t.Errorf("%s%s", out, said)
	}
	table, said, err := detects(t, "--data", data)
	if err != nil || !strings.Contains(table, `a'.\x1b[31mevil.test`) || strings.Contains(table, "\x1b") || !strings.Contains(said, "rule feed is skipped: no feed of domains") {
		t.Errorf("%s%s%v", table, said, err)
	}
	if events, _, err := detects(t, "--data", data, "-o", "ocsf"); err != nil || strings.Count(events, `"class_uid":2004`) != 1 {
		t.Errorf("%s%v", events, err)
	}
}

func TestDetectExitCodes(t *testing.T) {
	data := deniedLog(t)
	rules, mesh := t.TempDir(), t.TempDir()
	writeText(t, filepath.Join(rules, "broken.sql"), "-- id: broken\n-- title: T\n-- severity: low\n-- finds: F\n\nSELECT nothing\nFROM nowhere\n")
	writeText(t, filepath.Join(mesh, "policy.yaml"), fmt.Sprintf(`apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: list, namespace: shop}
spec:
  rules:
  - {name: soon, hosts: ['*.evil.test'], action: Allow, reason: r, expires: %q}
`, time.Now().Add(48*time.Hour).UTC().Format(time.RFC3339)))
	feed := filepath.Join(t.TempDir(), "feed")
	writeText(t, feed, "good.test\n")
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitDone, "denied-burst"},
		{[]string{"--fail-on", "medium"}, exitNo, "denied-burst"},
		{[]string{"--fail-on", "high"}, exitDone, "denied-burst"},
		{[]string{"--since", "30m", "--fail-on", "low"}, exitDone, "SEVERITY"},
		{[]string{"--set", "denied-burst.denied=31", "--fail-on", "low"}, exitDone, "SEVERITY"},
		{[]string{"--only", "beacon", "--fail-on", "low"}, exitDone, "SEVERITY"},
		{[]string{"--rules", rules}, exitFailed, "broken.sql: rule broken: "},
		{[]string{"--rules", rules}, exitFailed, "LINE 7"},
		{[]string{"--rules", rules, "--fail-on", "low"}, exitNo, "denied-burst"},
		{[]string{"--config-dir", mesh, "--fail-on", "low", "--only", "rule-expiring"}, exitNo, "policy=list"},
		{[]string{"--feed", feed, "--only", "feed", "--fail-on", "low"}, exitDone, "SEVERITY"},
		{[]string{"--list", "--only", "beacon"}, exitDone, "--set beacon.connections=4 (integer)"},
		{[]string{"--list", "-o", "json"}, exitDone, `"id": "beacon"`},
		{[]string{"-o", "yaml"}, exitUsage, `-o "yaml"`},
		{[]string{"--since", "soon"}, exitUsage, `--since: time "soon"`},
		{[]string{"--since", "1h", "--until", "2h"}, exitUsage, "is not before --until"},
		{[]string{"--usual", "x"}, exitUsage, `--usual "x"`},
		{[]string{"--fail-on", "bad"}, exitUsage, `--fail-on: severity "bad"`},
		{[]string{"--only", "nope"}, exitUsage, `--only "nope": there is no such rule; there are beacon`},
		{[]string{"--set", "beacon.connections=x"}, exitUsage, "write an integer"},
		{[]string{"--rules", rules + "/none"}, exitUsage, "there is no such folder"},
		{[]string{"--feed", rules + "/none"}, exitUsage, "--feed"},
		{[]string{"--config-dir", rules + "/none"}, exitUsage, "there is no such directory"},
		{[]string{"--config-dir", mesh, "--up", mesh}, exitUsage, "give one of them"},
		{[]string{"--limit", "0"}, exitUsage, "--limit 0"},
		{[]string{"more"}, exitUsage, "more"},
	} {
		out, errs, err := detects(t, append([]string{"--data", data}, tt.args...)...)
		said := out + errs
		if err != nil {
			said += err.Error()
		}
		if exitCode(err) != tt.code || !strings.Contains(said, tt.want) {
			t.Errorf("%v: %d, want %d and %q: %s", tt.args, exitCode(err), tt.code, tt.want, said)
		}
	}
}

// TestServeMetrics: what the watch counts is served, until the end.
func TestServeMetrics(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(watch.NewMetrics())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serveMetrics(ctx, l, registry) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(body), "sallyport_detect_passes_total 0") {
		t.Errorf("%s %v", body, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := metricsJob("nowhere", nil); err == nil || !strings.Contains(err.Error(), `--metrics-addr "nowhere"`) {
		t.Error(err)
	}
}
