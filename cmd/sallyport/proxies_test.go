package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// admin plays the controller's admin port.
func admin(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/proxies", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[
 {"id":"router~10.0.0.2~g.istio-system~x","namespace":"istio-system","synced":true,"types":{}},
 {"id":"sidecar~10.0.0.1~a.default~x","namespace":"default","synced":false,
  "types":{"b":{"problem":"bad listener"},"a":{"problem":"bad cluster"},"c":{"upserts":3}}}]`))
	})
	mux.HandleFunc("GET /debug/xds", func(w http.ResponseWriter, r *http.Request) {
		if id := r.URL.Query().Get("proxy"); id != "sidecar~10.0.0.1~a.default~x" {
			http.Error(w, "no proxy with the id "+id+" is connected", http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"clusters":{}}`))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestProxiesAndConfig(t *testing.T) {
	at := admin(t)
	for _, tt := range []struct {
		args []string
		code int
		want string // in stdout, or in the error
	}{
		{[]string{"proxies"}, exitDone, "PROXY                             NAMESPACE     SYNCED  REFUSED\n"},
		{[]string{"proxies"}, exitDone, "sidecar~10.0.0.1~a.default~x      default       false   bad cluster; bad listener\n"},
		{[]string{"proxies", "-o", "json"}, exitDone, `"synced": true`},
		{[]string{"proxies", "-o", "xml"}, exitUsage, "must be table or json"},
		{[]string{"proxies", "extra"}, exitUsage, `"extra": unexpected argument`},
		{[]string{"config", "sidecar~10.0.0.1~a.default~x"}, exitDone, `{"clusters":{}}`},
		{[]string{"config", "nobody"}, exitFailed, "no proxy with the id nobody is connected"},
		{[]string{"config"}, exitUsage, "takes one proxy's id"},
		{[]string{"config", "a", "b"}, exitUsage, "takes one proxy's id"},
		{[]string{"config", "sidecar~10.0.0.1~a.default~x", "-o", "yaml"}, exitUsage, "must be json"},
	} {
		out, _, code, err := call(t, append(tt.args, "--admin-addr", at)...)
		if code >= exitUsage && err != nil {
			out = err.Error()
		}
		if code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%v: exit %d, want %d and %q in:\n%s", tt.args, code, tt.code, tt.want, out)
		}
	}
	if _, _, code, err := call(t, "proxies", "--admin-addr", "127.0.0.1:1"); code != exitFailed || !strings.Contains(err.Error(), "is it running") {
		t.Errorf("nobody answers: exit %d, %v", code, err)
	}
	if _, _, code, err := call(t, "config", "nobody", "--admin-addr", "127.0.0.1:1"); code != exitFailed || !strings.Contains(err.Error(), "is it running") || strings.Contains(err.Error(), "no proxy") {
		t.Errorf("nobody answers: exit %d, %v", code, err)
	}
	if _, _, code, err := call(t, "proxies", "--admin-addr", "not an address"); code != exitUsage {
		t.Errorf("no address: exit %d, %v", code, err)
	}
	out, _, _, _ := call(t, "proxies", "-o", "json", "--admin-addr", at)
	if !json.Valid([]byte(out)) {
		t.Errorf("not JSON: %s", out)
	}
}
