package console

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestLinksMeanWhatTheyStandBeside: "without" beside what an attacker wrote leaves out his records, and nobody else's, and "only" shows his alone, also where he wrote
// what stands for any text in a filter.
func TestLinksMeanWhatTheyStandBeside(t *testing.T) {
	written := []string{"*", "a*", "?????", `\*`, `a\`}
	var records []record.Record
	for i, text := range append(written, "a.test", "b.test") {
		records = append(records, record.Record{Proxy: "p", Epoch: 1, Seq: uint64(i + 1), Time: noon.Add(-time.Minute), Class: record.HTTP, Verdict: record.Denied, Path: record.PathBlackhole, Direction: record.Outbound,
			Protocol: "http", Method: "GET", Host: text, URLPath: "/" + text, Reason: text, Workload: record.Workload{Namespace: "n", ServiceAccount: "s"}})
	}
	h := served(t, records, nil)
	all := len(records)
	shows := func(address string) int {
		t.Helper()
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		page := body(t, h, "/log?"+url.Values{"q": {u.Query().Get("q")}}.Encode())
		if strings.Contains(page, "Nothing fits") {
			return 0
		}
		var n int
		if _, err := fmt.Sscan(regexp.MustCompile(`([0-9]+) records?,`).FindStringSubmatch(page)[1], &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, text := range written {
		page := []byte(body(t, h, fmt.Sprintf("/record?proxy=p&epoch=1&seq=%d", i+1)))
		tried := map[string]bool{}
		for _, to := range links(t, page) {
			u, err := url.Parse(to)
			if err != nil || u.Path != "/log" {
				continue
			}
			e, err := query.ParseExpression(u.Query().Get("q"))
			if err != nil {
				t.Errorf("%s: %s: %v", text, to, err)
				continue
			}
			if len(e.Terms) != 1 || e.Terms[0].Key != "host" && e.Terms[0].Key != "url_path" && e.Terms[0].Key != "reason" {
				continue
			}
			tried[fmt.Sprint(e.Terms[0].Key, e.Terms[0].Not)] = true
			want := 1
			if e.Terms[0].Not {
				want = all - 1
			}
			if got := shows(to); got != want {
				t.Errorf("%s, %s: %d records, want %d", text, u.Query().Get("q"), got, want)
			}
		}
		if len(tried) != 6 {
			t.Errorf("%s: the page links to %v", text, tried)
		}
		subject := body(t, h, "/host?"+url.Values{"name": {text}}.Encode())
		if its := regexp.MustCompile(`<a href="([^"]*)">Its records`).FindStringSubmatch(subject); its == nil || shows(html.UnescapeString(its[1])) != 1 {
			t.Errorf("the page of the host %s is about %v", text, its)
		}
	}
	for _, by := range []string{"host", "reason"} {
		for _, to := range links(t, []byte(body(t, h, "/log?group="+by))) {
			e, err := query.ParseExpression(func() string { u, _ := url.Parse(to); return u.Query().Get("q") }())
			if err != nil || len(e.Terms) != 1 || e.Terms[0].Key != by {
				continue
			}
			want := 1
			if e.Terms[0].Not {
				want = all - 1
			}
			if got := shows(to); got != want {
				t.Errorf("by %s: %s leads to %d records, want %d", by, e, got, want)
			}
		}
	}
}
