package console

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC)

const hostile = `<img src=x onerror=alert(1)>"'&`

func servedPage(t *testing.T) http.Handler {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	var records []record.Record
	for i, verdict := range []record.Verdict{record.Allowed, record.Denied, record.Denied} {
		records = append(records, record.Record{Proxy: "p", Epoch: 1, Seq: uint64(i + 1), Class: record.HTTP,
			Time: noon.Add(time.Duration(i-10) * time.Minute), Verdict: verdict, Host: hostile,
			Workload: record.Workload{Namespace: "shop", Name: "cart-1"}})
	}
	if err := s.Store(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	return newHandler(s.DB(), testLog(t), func() time.Time { return noon }, isLoopbackHost)
}

func get(t *testing.T, h http.Handler, host, path string) *http.Response {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	return w.Result()
}

func TestRecordsAndSummary(t *testing.T) {
	h := servedPage(t)
	tests := []struct {
		query string
		want  int
	}{
		{"", 3}, {"verdict=denied", 2}, {"since=9m30s", 2}, {"limit=1", 1}, {"host=nothing*", 0},
		{"from=shop/cart-1", 3}, {"from=pay/cart-1", 0},
	}
	for _, tt := range tests {
		response := get(t, h, "localhost:8181", "/api/records?"+tt.query)
		body, _ := io.ReadAll(response.Body)
		var records []record.Record
		if err := json.Unmarshal(body, &records); err != nil || records == nil || len(records) != tt.want {
			t.Errorf("%s: %s, %v", tt.query, body, err)
		}
		if strings.ContainsAny(string(body), "<>") {
			t.Errorf("markup comes through: %s", body)
		}
		if got := response.Header.Get("Content-Type"); got != "application/json" {
			t.Error(got)
		}
	}
	var s query.Summary
	if err := json.NewDecoder(get(t, h, "localhost", "/api/summary?since=1h").Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	if len(s.Denied) != chartSlices || len(s.TopDenied) != 1 || s.TopDenied[0] != (query.HostCount{Host: hostile, Count: 2}) {
		t.Errorf("%+v", s)
	}
}

func TestWrongParameters(t *testing.T) {
	h := servedPage(t)
	for _, q := range []string{"since=yesterday", "until=x", "verdict=maybe", "from=a/b/c", "limit=0", "limit=1000000", "limit=x"} {
		if response := get(t, h, "localhost", "/api/records?"+q); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", q, response.Status)
		}
	}
	if response := get(t, h, "localhost", "/nothing"); response.StatusCode != http.StatusNotFound {
		t.Error(response.Status)
	}
}

func TestHostHeader(t *testing.T) {
	h := servedPage(t)
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8181": 200, "127.0.0.1:8181": 200, "127.8.8.8": 200, "[::1]:8181": 200, "[::1]": 200,
		"evil.test": 421, "127.0.0.1.evil.test:8181": 421, "localhost.evil.test": 421, "10.0.0.1:8181": 421, "": 421,
		"evil.test:8181@localhost": 421,
	} {
		for _, path := range []string{"/", "/api/records"} {
			if response := get(t, h, host, path); response.StatusCode != want {
				t.Errorf("%s%s: %s, want %d", host, path, response.Status, want)
			}
		}
	}
	everywhere := hostCheck(&net.TCPAddr{IP: net.IPv4zero, Port: 1})
	if !everywhere("audit.example.com") || hostCheck(&net.TCPAddr{IP: net.IPv6loopback})("audit.example.com") {
		t.Error("the check does not follow the listener's address")
	}
}

func TestPageIsSelfContained(t *testing.T) {
	h := servedPage(t)
	inline := regexp.MustCompile(`(?i)<script(?:>|[^>]*>\s*\S[^<]*</script)|<style|\son\w+=|\sstyle=|https?://`)
	for _, path := range []string{"/", "/app.js", "/style.css", "/icon.svg"} {
		response := get(t, h, "localhost", path)
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK || len(body) == 0 {
			t.Fatalf("%s: %s", path, response.Status)
		}
		csp := response.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
		text := strings.ReplaceAll(string(body), "http://www.w3.org/2000/svg", "")
		if path != "/app.js" && inline.MatchString(text) {
			t.Errorf("%s: %s", path, inline.FindString(text))
		}
		if path == "/app.js" && regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(`).MatchString(text) {
			t.Error("the script writes markup")
		}
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Serve(ctx, listener, nil, nil) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + listener.Addr().String() + "/")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(err)
	}
	response.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }
