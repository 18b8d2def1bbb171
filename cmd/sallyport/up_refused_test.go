package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestUpRefusesWithWords: where policies are kept, what is no request to be sent on is answered by what is wrong with it, goes nowhere, and has its record: a CONNECT to a port for requests, requests of HTTP before 1.1 that name
// no host. One of HTTP/1.0 that names its host is a request like others, and so is one whose Host is another than its URL's: the URL counts (RFC 9112 section 3.2.2). A header that is denied is so, too, by the name that servers take for it.
func TestUpRefusesWithWords(t *testing.T) {
	programs := upPrograms(t)
	var reached atomic.Int64
	port := upEcho(t, func(c net.Conn) io.ReadWriteCloser {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			reached.Add(1)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		}
		return nil
	})
	dir := programs.dir(t)
	for name, text := range map[string]string{
		"one.yaml":    upEntry("one", "one.test", "DNS", fmt.Sprintf("[{number: %d, name: http, protocol: HTTP}]", port)),
		"two.yaml":    upEntry("two", "two.test", "DNS", fmt.Sprintf("[{number: %d, name: http, protocol: HTTP}]", port)),
		"policy.yaml": "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: list, namespace: default}\nspec: {rules: [{hosts: [one.test], headers: [{name: x-debug, value: '*'}], action: Deny}, {hosts: [one.test], action: Allow}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(programs.dir(t), "data")
	up := programs.start(t, "up", dir, "--data", data, "--proxy-addr", "127.0.0.1:0", "--console-addr", "", "--dns-server", upNameServer(t, map[string]string{"one.test.": "127.0.0.1", "two.test.": "127.0.0.1"}))
	up.says(t, "sallyport: ready")
	proxy := up.proxy(t)
	ask := func(text string) (status int, body string, err error) {
		c, err := net.Dial("tcp", proxy)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err = io.WriteString(c, text); err != nil {
			return 0, "", err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodGet})
		if err != nil {
			return 0, "", err
		}
		all, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(all), err
	}
	upEventually(t, "a request that is allowed", func() error {
		status, body, err := ask(fmt.Sprintf("GET http://one.test:%d/ HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n", port))
		if err == nil && (status != 200 || body != "ok") {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
	for what, c := range map[string]struct {
		ask    string
		status int // 0: its connection ends
		words  string
	}{
		"a CONNECT to a port for requests":        {fmt.Sprintf("CONNECT one.test:%d HTTP/1.1\r\nHost: one.test:%[1]d\r\n\r\n", port), 403, "registered as plain HTTP"},
		"HTTP/1.0 that names its host":            {fmt.Sprintf("GET http://one.test:%d/ HTTP/1.0\r\n\r\n", port), 200, "ok"},
		"HTTP/1.0 that names a host which is not": {fmt.Sprintf("GET http://two.test:%d/ HTTP/1.0\r\n\r\n", port), 403, ""},
		"another Host than its URL's":             {fmt.Sprintf("GET http://two.test:%d/ HTTP/1.1\r\nHost: one.test:%[1]d\r\nConnection: close\r\n\r\n", port), 403, ""},
		"a header that is denied":                 {fmt.Sprintf("GET http://one.test:%d/ HTTP/1.1\r\nHost: one.test:%[1]d\r\nX-Debug: 1\r\nConnection: close\r\n\r\n", port), 403, ""},
		"what servers take for it":                {fmt.Sprintf("GET http://one.test:%d/ HTTP/1.1\r\nHost: one.test:%[1]d\r\nX_Debug: 1\r\nConnection: close\r\n\r\n", port), 403, ""},
		"HTTP/1.0 without a host":                 {"GET /none HTTP/1.0\r\n\r\n", 400, ""},
		"HTTP/1.1 without a host":                 {"GET /none HTTP/1.1\r\nConnection: close\r\n\r\n", 400, ""},
		"HTTP/0.9":                                {"GET /none\r\n\r\n", 400, ""},
	} {
		before := reached.Load()
		status, body, err := ask(c.ask)
		if err != nil || status != c.status || !strings.Contains(body, c.words) {
			t.Errorf("%s: %d %q, %v, want %d %q", what, status, body, err, c.status, c.words)
		}
		if got := reached.Load() - before; (got == 1) != (c.status == 200) || got > 1 {
			t.Errorf("%s: the server is reached %d times", what, got)
		}
	}
	upEventually(t, "the records", func() error {
		out, err := programs.run(t, "audit", "query", "--data", data, "--verdict", "denied", "-o", "json")
		for text, want := range map[string]int{"the port is registered with another protocol": 1, "what came is no request that the proxy reads": 3, `"two.test"`: 2} {
			if n := strings.Count(out, text); err != nil || n < want {
				err = fmt.Errorf("want %d of %s, are %d: %s %w", want, text, n, out, err)
			}
		}
		return err
	})
	if err := up.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
}
