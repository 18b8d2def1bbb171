// Package envoytest runs the pinned Envoy in tests of its configuration.
package envoytest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Binary finds it: $SALLYPORT_ENVOY, or bin/envoy at the project's root. Without one the test is skipped.
func Binary(t testing.TB) string {
	t.Helper()
	file := os.Getenv("SALLYPORT_ENVOY")
	if file == "" {
		file = filepath.Join(root(t), "bin", "envoy")
	}
	if _, err := os.Stat(file); err != nil {
		t.Skipf("no Envoy at %s: run `make envoy`, or name one in SALLYPORT_ENVOY", file)
	}
	return file
}

// root is the folder of go.mod.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

// Write writes a bootstrap to a file of the test's.
func Write(t testing.TB, bootstrap proto.Message) (file string) {
	t.Helper()
	text, err := protojson.Marshal(bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Start runs it with a bootstrap, until the test ends, and returns once it listens on a Unix socket.
func Start(t testing.TB, bootstrap proto.Message, socket string, args ...string) {
	t.Helper()
	args = append([]string{"-c", Write(t, bootstrap), "--concurrency", "1", "--disable-hot-restart", "-l", "error"}, args...)
	cmd := exec.CommandContext(t.Context(), Binary(t), args...)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	for began := time.Now(); ; {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-ended:
			t.Fatal("Envoy refuses it")
		case <-time.After(20 * time.Millisecond):
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
}
