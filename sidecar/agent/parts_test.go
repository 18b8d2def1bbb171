package agent

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
)

func TestDropsBecomeGaps(t *testing.T) {
	var gaps []uint64
	d := &drops{log: slog.New(slog.DiscardHandler), gap: func(count uint64, _ string) error {
		gaps = append(gaps, count)
		return nil
	}}
	for _, value := range []uint64{0, 3, 3, 10, 2, 2, 0, 1} { // 2 and 0 are new Envoys
		if err := d.note(value); err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint64{3, 7, 2, 1}; !slices.Equal(gaps, want) {
		t.Errorf("gaps %v, want %v", gaps, want)
	}
}

// TestTurnedAway: datagrams that began no session are in gap records once, whatever listeners and Envoys come and go.
func TestTurnedAway(t *testing.T) {
	var gaps []uint64
	full := errors.New("no space left on device; the gap is told later")
	d := &drops{log: slog.New(slog.DiscardHandler), gap: func(count uint64, _ string) error {
		gaps = append(gaps, count)
		return full
	}}
	for _, now := range []map[string]uint64{
		{}, {"a": 2}, {"a": 2, "b": 3}, {"a": 1, "b": 3}, {"b": 4}, {"a": 1, "b": 4}, {}, {"b": 4},
	} {
		if err := d.noteTurned(now); err != nil && !errors.Is(err, full) {
			t.Fatal(err)
		}
	}
	if want := []uint64{2, 3, 1, 1, 1, 4}; !slices.Equal(gaps, want) {
		t.Errorf("gaps %v, want %v", gaps, want)
	}
}

// TestRefusedConnectionsAreCounted: what Envoy closes as it comes has no entry, and so it has a gap, beside what was lost for other reasons.
func TestRefusedConnectionsAreCounted(t *testing.T) {
	const overflow, reject = "listener.0.0.0.0_8443.downstream_global_cx_overflow", "listener.0.0.0.0_8443.downstream_cx_overload_reject"
	var stats atomic.Pointer[string]
	envoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, *stats.Load()) }))
	defer envoy.Close()
	gaps := map[string]uint64{}
	d := &drops{log: slog.New(slog.DiscardHandler), admin: envoy.Listener.Addr().String(), gap: func(count uint64, reason string) error {
		what, _, _ := strings.Cut(reason, ":")
		gaps[what] += count
		return nil
	}}
	for _, text := range []string{overflow + ": 3\n" + reject + ": 0\n", droppedStat + ": 2\n" + overflow + ": 3\n" + reject + ": 4\n", overflow + ": 5\n" + reject + ": 4\n"} {
		stats.Store(&text)
		d.look(t.Context(), envoy.Client())
	}
	want := map[string]uint64{"connections were refused as they came": 9, "Envoy dropped access log entries that the agent did not take in time": 2}
	if !maps.Equal(gaps, want) {
		t.Errorf("gaps %v, want %v", gaps, want)
	}
}

func TestReadStats(t *testing.T) {
	const turned, unrouted = "cluster.outbound|53|udp.5300|dns.infra.svc.cluster.local.upstream_cx_overflow", "udp.udp_0.0.0.0_53.downstream_sess_no_route"
	for text, want := range map[string]map[string]uint64{
		"": {},
		droppedStat + ": 5\n" + turned + ": 7\n" + unrouted + ": 0\n": {droppedStat: 5, turned: 7, unrouted: 0},
	} {
		if got, err := parseStats(strings.NewReader(text)); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := parseStats(strings.NewReader(droppedStat + ": many\n")); err == nil {
		t.Error("a value that is no number must be an error")
	}
	for name, asked := range map[string]bool{
		turned: true, unrouted: true, strings.Replace(turned, "overflow", "none_healthy", 1): true,
		"connection_limit.http3.limited_connections": true, "listener.0.0.0.0_8443.downstream_global_cx_overflow": true, "listener.[__]_8443.downstream_cx_overload_reject": true, "listener.0.0.0.0_8443.downstream_cx_total": false,
		strings.Replace(turned, "udp.5300", "udp", 1): false, "cluster.outbound|53||udp.svc.cluster.local.upstream_cx_overflow": false, "udp.udp_0.0.0.0_53.downstream_sess_total": false,
	} {
		if regexp.MustCompile("^("+turnedStats+"|"+refusedStats+")$").MatchString(name) != asked {
			t.Errorf("%s is asked for: %v", name, !asked)
		}
	}
}

func TestStaleSocketIsTakenOver(t *testing.T) {
	path := filepath.Join(runDir(t), "agent.sock")
	first, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as if killed
	if _, err := listenSocket(path); !errors.Is(err, ErrConfig) {
		t.Errorf("a socket in use: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := listenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestOriginOfTheAgentsOwnRecords(t *testing.T) {
	for want, options := range map[string]bootstrap.Options{
		record.ReporterSidecar: {Role: bootstrap.Sidecar},
		record.ReporterGateway: {Role: bootstrap.Router},
		record.ReporterProxy:   {Role: bootstrap.Router, Metadata: map[string]any{forwardProxy: "127.0.0.1:3128"}},
	} {
		if r := (&Config{Proxy: options}).origin(); r.Reporter != want || r.Proxy == "" {
			t.Errorf("want reporter %s, got %+v", want, r)
		}
	}
}
