package console

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// body gets a page, which must be there.
func body(t testing.TB, h http.Handler, path string) string {
	t.Helper()
	response := get(t, h, "localhost", path)
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s\n%s", path, response.Status, text)
	}
	return strings.ReplaceAll(string(text), "<wbr>", "")
}

// TestEveryLinkLeadsSomewhere walks the console from its first page: what it links to is there, and its own.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	h := served(t, scene(t), nil)
	seen, queue := map[string]bool{"/": true}, []string{"/"}
	shape := map[string]int{} // of addresses: what differs in values alone is looked at a few times
	for n := 0; len(queue) > 0; n++ {
		at := queue[0]
		queue = queue[1:]
		response := get(t, h, "localhost", at)
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %.300s", at, response.Status, text)
			continue
		}
		if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
			continue
		}
		for _, to := range links(t, text) {
			u, err := url.Parse(to)
			if err != nil || u.IsAbs() || u.Host != "" {
				t.Errorf("%s links to %s", at, to)
				continue
			}
			if u.Path == "" { // a place on the page
				continue
			}
			u.Fragment = ""
			kind := u.Path + regexp.MustCompile(`=[^&]*`).ReplaceAllString(u.RawQuery, "")
			if e, err := query.ParseExpression(u.Query().Get("q")); err == nil {
				for _, term := range e.Terms {
					kind += " " + term.Key
				}
			}
			if shape[kind]++; seen[u.String()] || shape[kind] > 1 || len(seen) > 90 {
				continue
			}
			seen[u.String()] = true
			queue = append(queue, u.String())
		}
	}
	for _, want := range []string{"/log", "/flows", "/host", "/workload", "/record", "/log.csv"} {
		found := false
		for at := range seen {
			found = found || at == want || strings.HasPrefix(at, want+"?")
		}
		if !found {
			t.Errorf("nothing leads to %s", want)
		}
	}
}

// links are the addresses of a page; what is hostile is in it as text only.
func links(t *testing.T, page []byte) (out []string) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on") || a.Key == "style", a.Key == "src" && !strings.HasPrefix(a.Val, "/static/"):
				t.Errorf("an element %s has %s=%s", n.Data, a.Key, a.Val)
			case n.Data == "a" && a.Key == "href":
				out = append(out, a.Val)
			}
		}
		if n.Data == "script" && n.FirstChild != nil || n.Data == "style" {
			t.Errorf("there is an inline %s", n.Data)
		}
	}
	return out
}

func TestPagesSay(t *testing.T) {
	h := served(t, scene(t), nil)
	for path, want := range map[string][]string{
		"/":                                      {"Denied most", "x1.tracker.example.net", "Regular connections", "the disk was full", "Records that are missing"},
		"/log":                                   {"of 598", "certificate not trusted: self-signed", "12 records of router", ">why<", ">allow<", "Older"},
		"/log?q=verdict:denied+-host:*.tracker*": {"1 record,", "&lt;img src=x onerror"},
		"/log?q=host:nothing":                    {"Nothing fits."},
		"/log?q=verdict:denied&group=domain":     {"example.net", "60"},
		"/log?group=rule":                        {"EgressPolicy shop/checkout partners", "ServiceEntry shop/partners"},
		"/log?col=sni&col=seq":                   {"c-seq"},
		"/log?page=2":                            {"Records 201 to 300 of 598"},
		"/flows":                                 {"shop/cart", "cdn.example.org", "<path"},
		"/flows?by=bytes":                        {"shop/checkout"},
		"/host?name=api.partner.example":         {"shop/checkout", "203.0.113.7", "In the log since 2027"},
		"/workload?name=legacy/report":           {"report-0", "Regular connections", "not registered"},
		"/explain?from=shop/cart&url=https://a.test/": {"not known to this server", "sallyport explain --from shop/cart https://a.test/"},
	} {
		text := body(t, h, path)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s does not say %q\n%.300s", path, w, text)
			}
		}
		if strings.Contains(text, "<img src=x") || strings.Contains(text, "ZgotmplZ") {
			t.Errorf("%s: markup comes through", path)
		}
	}
}

func TestDenialIsExplained(t *testing.T) {
	h := served(t, scene(t), nil)
	text := body(t, h, "/log?q=host:old.partner.example")
	at := regexp.MustCompile(`/record\?[^"]*`).FindString(text)
	record := body(t, h, strings.ReplaceAll(at, "&amp;", "&"))
	if !strings.Contains(record, "certificate not trusted: self-signed") || !strings.Contains(record, "As the proxy said it") || !strings.Contains(record, "CERTIFICATE VERIFY FAILED") {
		t.Errorf("%.6000s", record)
	}
}

func TestDownloads(t *testing.T) {
	h := served(t, scene(t), nil)
	var records []record.Record
	if err := json.Unmarshal([]byte(body(t, h, "/log.json?q=verdict:denied")), &records); err != nil || len(records) != 60 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if lines := strings.Count(body(t, h, "/log.csv?q=host:cdn*"), "cdn.example.org"); lines != 133 {
		t.Errorf("%d lines", lines)
	}
	if text := body(t, h, "/log.parquet?q=verdict:denied"); !strings.HasPrefix(text, "PAR1") || !strings.HasSuffix(text, "PAR1") {
		t.Errorf("%.20q is no Parquet", text)
	}
	if response := get(t, h, "localhost", "/log.json?q=colour:red"); response.StatusCode != http.StatusBadRequest {
		t.Error(response.Status)
	}
}

func TestWrongAddresses(t *testing.T) {
	h := served(t, scene(t), nil)
	for path, want := range map[string]int{
		"/log?q=colour:red": 400, "/?q=since:tomorrow": 400, "/log?group=colour": 400, "/log?page=101": 400, "/host": 400, "/record": 400,
		"/record?proxy=p&epoch=1&seq=1": 404, "/nothing": 404, "/log?q=%00": 400,
		"/log?q=host:a%2": 400, "/log?q=%": 400, "/?q=host:a;b": 400, // half an address is another filter, or none
		"/log?page=x": 400, "/log?page=-1": 400, "/log?page=1.5": 400, "/log?page=99999999999999999999": 400, "/log?page=": 200, "/log?col=colour": 400, "/log?col=time&col=host": 200,
		"/flows?by=colour": 400, "/flows?by=records": 200, "/host?name=%ff": 400, "/workload?name=%00": 400, "/record?proxy=%ff&epoch=1&seq=1": 400, "/explain?url=%ff": 400,
		// What chooses nothing would show more than was asked for.
		"/log?since=1h": 400, "/log?q=host:a.test&q=host:b.test": 400, "/?host=a.test": 400, "/log?page=1&page=2": 400, "/host?name=a.test&name=b.test": 400, "/findings?page=1": 400,
	} {
		response := get(t, h, "localhost", path)
		text, _ := io.ReadAll(response.Body)
		if response.StatusCode != want {
			t.Errorf("%s: %s", path, response.Status)
		}
		if want == 400 && !strings.Contains(string(text), `role="alert"`) {
			t.Errorf("%s does not say what is wrong", path)
		}
	}
}

// TestWrongAddressIsLeft: what is wrong in an address is in nothing that its page links to, and all else of it stays.
func TestWrongAddressIsLeft(t *testing.T) {
	h := served(t, scene(t), nil)
	for _, at := range []string{"/log?q=verdict:denied&group=colour", "/log?q=verdict:denied&col=host&page=x&since=1h", "/flows?q=verdict:denied&by=colour", "/log?q=verdict:denied&q=host:a"} {
		response := get(t, h, "localhost", at)
		text, _ := io.ReadAll(response.Body)
		kept := 0
		for _, to := range links(t, text) {
			u, err := url.Parse(to)
			if err != nil || u.Path == "" || u.Path == "/policies" {
				continue
			}
			if again := get(t, h, "localhost", to); again.StatusCode != http.StatusOK {
				t.Errorf("%s leads to %s: %s", at, to, again.Status)
			}
			if strings.Contains(u.Query().Get("q"), "verdict:denied") && (!strings.Contains(at, "col=") || u.Path != "/log" || u.Query().Get("col") == "host" || !strings.Contains(u.Query().Get("q"), "since")) {
				kept++
			}
		}
		if response.StatusCode != http.StatusBadRequest || kept < 5 {
			t.Errorf("%s: %s, and %d links have its filter", at, response.Status, kept)
		}
	}
	for _, at := range []string{"/log.json?since=1h", "/log.csv?q=a&q=b", "/log.parquet?group=host"} {
		if response := get(t, h, "localhost", at); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", at, response.Status)
		}
	}
}

// TestFlowsWithoutNames: what has no name has no page; it leads to its records.
func TestFlowsWithoutNames(t *testing.T) {
	h := served(t, odd(), nil)
	for _, to := range links(t, []byte(body(t, h, "/flows"))) {
		if strings.HasPrefix(to, "/") {
			if response := get(t, h, "localhost", to); response.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", to, response.Status)
			}
		}
	}
}

func TestHostHeader(t *testing.T) {
	h := served(t, nil, nil)
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8181": 200, "127.0.0.1:8181": 200, "127.8.8.8": 200, "[::1]:8181": 200, "[::1]": 200,
		"evil.test": 421, "127.0.0.1.evil.test:8181": 421, "localhost.evil.test": 421, "10.0.0.1:8181": 421, "": 421,
		"evil.test:8181@localhost": 421,
	} {
		for _, path := range []string{"/", "/log", "/log.csv"} {
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

func TestBrowserIsKeptStrict(t *testing.T) {
	h := served(t, nil, nil)
	for _, path := range []string{"/", "/log", "/static/live.js", "/static/style.css", "/static/icon.svg"} {
		response := get(t, h, "localhost", path)
		text, _ := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK || len(text) == 0 {
			t.Fatalf("%s: %s", path, response.Status)
		}
		csp := response.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if strings.HasSuffix(path, ".js") && regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(`).Match(text) {
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
	go func() { done <- Serve(ctx, listener, Options{}) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + listener.Addr().String() + "/static/style.css")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(err)
	}
	response.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestPagesTurnThroughAll: the log's pages have each record once, the newest first, whatever is asked for; each reads no more of the time than it needs.
func TestPagesTurnThroughAll(t *testing.T) {
	all := scene(t)
	h := served(t, all, nil)
	record := regexp.MustCompile(`/record\?[^"]*`)
	for q, want := range map[string]int{"since:24h": 598, "verdict:denied since:24h": 60, "class:gap since:24h": 1, "host:cdn* since:24h": 133} {
		seen := map[string]int{}
		for page := 0; ; page++ {
			text := body(t, h, "/log?q="+url.QueryEscape(q)+"&page="+strconv.Itoa(page))
			here := map[string]bool{} // a row leads to its record more than once
			for _, link := range record.FindAllString(text, -1) {
				link, _, _ = strings.Cut(link, "#")
				here[link] = true
			}
			for link := range here {
				seen[link]++
			}
			if !strings.Contains(text, "Older") {
				break
			}
		}
		for link, n := range seen {
			if n != 1 {
				t.Errorf("%s: %s is there %d times", q, link, n)
			}
		}
		if len(seen) != want {
			t.Errorf("%s: %d records, want %d", q, len(seen), want)
		}
	}
	c := chart{Bars: make([]bar, 4)}
	for i, n := range []uint64{5, 0, 3, 2} {
		c.Bars[i].Since, c.Bars[i].Allowed, c.Bars[i].Denied = noon.Add(time.Duration(i)*time.Hour), n-n/2, n/2
	}
	for n, want := range map[uint64]time.Time{1: noon.Add(3 * time.Hour), 2: noon.Add(3 * time.Hour), 3: noon.Add(2 * time.Hour), 5: noon.Add(2 * time.Hour), 6: {}, 100: {}} {
		if got := c.newest(n, time.Time{}); !want.IsZero() && got != want.Add(-time.Microsecond) || want.IsZero() && !got.IsZero() {
			t.Errorf("the newest %d are after %v, want %v", n, got, want)
		}
	}
}
