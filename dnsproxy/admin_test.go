package dnsproxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func TestAdmin(t *testing.T) {
	a := startAuthority(t, "www.a.test. 100 IN A 192.0.2.1", "a.test. 100 IN A 192.0.2.2", "nota.test. 100 IN A 192.0.2.3")
	c := newClock()
	s := serve(t, unhurried(Config{Upstreams: []string{a.addr}, Forward: map[string][]string{"corp.test": {"tls://127.0.0.1#dns.corp.test"}}, Now: c.Now}))
	for _, host := range []string{"www.a.test", "a.test", "nota.test", "gone.test"} {
		ask(t, s, "resolver", host, dns.TypeA)
	}
	c.advance(30 * time.Second)
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	call := func(method, path string, want ...string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		for _, w := range want {
			absent := strings.HasPrefix(w, "!")
			if strings.Contains(string(body), strings.TrimPrefix(w, "!")) == absent {
				t.Errorf("%s %s: got %s, want %s", method, path, body, w)
			}
		}
	}
	call("GET", "/dns/cache", `"name": "nota.test"`, `"expiresInSeconds": 70`, `192.0.2.1`, `"rcode": "NXDOMAIN"`, `"view": "resolver"`)
	call("GET", "/dns/cache?name=A.test.", `"name": "a.test"`, "!nota.test", "!www.a.test")
	call("GET", "/dns/cache?name=a.test&below=true", `"name": "www.a.test"`, "!nota.test")
	call("GET", "/dns/cache?limit=1", `"name": "a.test"`, "!www.a.test")
	call("GET", "/dns/cache?limit=x", "limit")
	call("GET", "/dns/upstreams", a.addr, `"domain": "corp.test"`, "tls://127.0.0.1:853#dns.corp.test", `"smoothedMilliseconds"`)
	call("GET", "/dns/flush", "Method Not Allowed")
	call("POST", "/dns/flush?name=a.test&below=true", `"flushed": 2`)
	call("GET", "/dns/cache", "nota.test", "!www.a.test")
	ask(t, s, "resolver", "a.test", dns.TypeA)
	if a.count("a.test. A") != 2 {
		t.Error("what was flushed is still answered from the cache")
	}
	call("POST", "/dns/flush", `"flushed": 3`)
	call("GET", "/dns/cache", "[]")
}
