package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestRequest: the answer of Envoy's administration is printed, and what is no 200 is an error.
func TestRequest(t *testing.T) {
	envoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/config_dump" {
			http.Error(w, "unknown", http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(r.Method + " " + r.URL.RawQuery))
	}))
	defer envoy.Close()
	at, _ := url.Parse(envoy.URL)
	ask := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := rootCommand()
		root.SetOut(&out)
		root.SetArgs(append([]string{"request", "--admin-port", at.Port()}, args...))
		err := root.Execute()
		return out.String(), err
	}
	if got, err := ask("get", "config_dump?include_eds"); err != nil || got != "GET include_eds" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ask("GET", "/nothing"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := ask("GET"); exitCode(err) != exitUsage {
		t.Errorf("a path is missing: %v", err)
	}
}
