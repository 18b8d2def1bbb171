package main

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFetch(t *testing.T) {
	target := httptest.NewTLSServer(handler("target"))
	defer target.Close()
	app := httptest.NewServer(handler("app"))
	defer app.Close()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: target.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := target.Listener.Addr().String()
	for name, c := range map[string]struct {
		query  url.Values
		status int
		err    string // part of it
	}{
		"by name, connected elsewhere": {url.Values{"url": {"https://example.com/status/204"}, "connect": {addr}, "ca": {roots}}, 204, ""},
		"other server name":            {url.Values{"url": {"https://nobody.test/"}, "connect": {addr}, "sni": {"example.com"}, "ca": {roots}}, 200, ""},
		"wrong server name":            {url.Values{"url": {"https://nobody.test/"}, "connect": {addr}, "ca": {roots}}, 0, "certificate is valid for"},
		"unknown roots":                {url.Values{"url": {"https://example.com/"}, "connect": {addr}}, 0, "unknown authority"},
		"no verification":              {url.Values{"url": {"https://nobody.test/"}, "connect": {addr}, "insecure": {"1"}}, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got fetched
			get(t, app.URL+"/fetch?"+c.query.Encode(), &got)
			if got.Status != c.status || !strings.Contains(got.Error, c.err) || (c.err == "") != (got.Error == "") {
				t.Errorf("%+v, want status %d, error %q", got, c.status, c.err)
			}
		})
	}

	var got fetched
	get(t, app.URL+"/fetch?"+url.Values{
		"url": {app.URL + "/path?x=1"}, "host": {"other.test"}, "header": {"X-Test: yes"}, "method": {"PUT"},
	}.Encode(), &got)
	var seen request
	if err := json.Unmarshal([]byte(got.Body), &seen); err != nil {
		t.Fatal(err)
	}
	if seen.Host != "other.test" || seen.Method != "PUT" || seen.Path != "/path?x=1" || seen.Headers.Get("X-Test") != "yes" || seen.Name != "app" {
		t.Errorf("the server saw %+v", seen)
	}
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = serveLines(l, "echo", false) }()
	app := httptest.NewServer(handler("app"))
	defer app.Close()
	var got exchanged
	get(t, app.URL+"/tcp?send=hi&addr="+l.Addr().String(), &got)
	if !got.Connected || got.Received != "echo: hi\n" || got.Remote != l.Addr().String() {
		t.Errorf("%+v", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got = exchanged{}
	get(t, app.URL+"/tcp?addr="+l.Addr().String(), &got)
	if got.Connected || got.Error == "" {
		t.Errorf("to a closed port: %+v", got)
	}
}

// TestTalks: each client of the program understands its server.
func TestTalks(t *testing.T) {
	server := httptest.NewUnstartedServer(handler("app"))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	go func() { _ = serveLines(first, "app", true) }()
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = datagrams.Close() }()
	go func() { _ = serveDatagrams(datagrams, "app") }()
	for query, want := range map[string]string{
		"ws?send=hello&addr=" + server.Listener.Addr().String(): "hello",
		"grpc?addr=" + server.Listener.Addr().String():          "SERVING",
		"tcp?addr=" + first.Addr().String():                     "app greets\n",
		"udp?send=x&addr=" + datagrams.LocalAddr().String():     "app: x",
	} {
		var got exchanged
		get(t, server.URL+"/"+query, &got)
		if got.Received != want || got.Error != "" {
			t.Errorf("%s: %+v, want %q", query, got, want)
		}
	}
	if err := getUntil(t.Context(), server.URL+"/healthz", time.Minute); err != nil {
		t.Error(err)
	}
	if err := getUntil(t.Context(), server.URL+"/status/503", time.Millisecond); err == nil {
		t.Error("503 is no success")
	}
}

func TestWrongCall(t *testing.T) {
	app := httptest.NewServer(handler("app"))
	defer app.Close()
	for _, path := range []string{"/fetch?url=%3A", "/fetch?url=http://x/&timeout=soon", "/fetch?url=http://x/&header=x", "/fetch?url=http://x/&ca=/nonexistent", "/status/1"} {
		response, err := http.Get(app.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
}

func get(t *testing.T, url string, into any) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatalf("%s: %s: %s", url, response.Status, content)
	}
}
