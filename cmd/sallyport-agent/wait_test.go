package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func runWait(args ...string) error {
	root := rootCommand()
	root.SetArgs(append([]string{"wait"}, args...))
	return root.Execute()
}

func TestWaitUntilReady(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if err := runWait("--url", server.URL, "--period", "1ms"); err != nil || asked.Load() != 3 {
		t.Errorf("%v after %d questions", err, asked.Load())
	}
}

func TestWaitInVain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no clusters yet", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	err := runWait("--url", server.URL, "--period", "1ms", "--timeout", "50ms")
	if exitCode(err) != exitFailed || !strings.Contains(err.Error(), "not ready after 50ms") {
		t.Errorf("got %v", err)
	}
	for _, args := range [][]string{{"--url", "ready"}, {"--timeout", "0s"}, {"more"}} {
		if err := runWait(args...); exitCode(err) != exitUsage {
			t.Errorf("%v: %v", args, err)
		}
	}
}
