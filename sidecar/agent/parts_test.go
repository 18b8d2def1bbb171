package agent

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

func TestParseStat(t *testing.T) {
	for text, want := range map[string]uint64{
		"":                                   0,
		"other: 7\n" + droppedStat + ": 5\n": 5,
		droppedStat + "_not: 5\n":            0,
	} {
		if got, err := parseStat(strings.NewReader(text), droppedStat); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	if _, err := parseStat(strings.NewReader(droppedStat+": many\n"), droppedStat); err == nil {
		t.Error("a value that is no number must be an error")
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
