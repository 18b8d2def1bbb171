package console

import (
	"html"
	"net/url"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// grouped are records of all classes, and of names that others may have written.
func grouped() []record.Record {
	records := odd()
	add := func(change func(*record.Record)) {
		r := records[0]
		r.Seq = uint64(len(records) + 100)
		change(&r)
		r.Bound()
		records = append(records, r)
	}
	for i, rule := range []string{"admins", "admins", "probes"} {
		add(func(r *record.Record) {
			r.Verdict, r.DecidedBy = record.Denied, record.Object{Kind: record.AuthorizationPolicy, Namespace: "n", Name: "who", Rule: rule}
			r.Workload = record.Workload{Namespace: "n", ServiceAccount: "s", Name: []string{"pod-1", "pod-2", ""}[i]}
		})
	}
	for i, reason := range []string{"the disk was full", "the disk was full", "killed", ""} {
		add(func(r *record.Record) {
			*r = record.Record{Proxy: []string{"p", "sidecar~q"}[i%2], Epoch: 1, Seq: r.Seq, Time: r.Time, Class: record.Gap, Count: uint64(i), Reason: reason}
		})
	}
	add(func(r *record.Record) { // about what others go to
		*r = record.Record{Proxy: "p", Epoch: 1, Seq: r.Seq, Time: r.Time, Class: record.Action, Action: "approved", Actor: "ann", Host: "api.a.test", Workload: record.Workload{Namespace: "n", ServiceAccount: "s"}}
	})
	for _, host := range []string{
		"a.test.", "api.a.test", "API.a.test", "*.a.test", "a..test", ".", "..", "-", "[::1]", "1.2.3.4", "co.uk", "shop.co.uk", "x.shop.co.uk", "uk", "test", "x..a.test", ".a.test", "x.1.2.3.4", "1.2.3.4.", "amazonaws.com", "one.s3.amazonaws.com", "two.s3.amazonaws.com", "s3.amazonaws.com", "one.github.io", "two.github.io", "a.test..", `a\b.test`, "a?.test", "\u212Aelvin.test", "kelvin.test",
	} {
		add(func(r *record.Record) { r.Host, r.Authority = host, host })
	}
	return records
}

// TestGroupsLeadToTheirRecords: behind the number of a group there are so many records, by whatever is added up of whatever is asked for, on each page that has
// groups; and those of the log are all that fit.
func TestGroupsLeadToTheirRecords(t *testing.T) {
	h := served(t, grouped(), nil)
	row := regexp.MustCompile(`</td>\s*<td class="n"><a href="([^"]*)">([^<]*)</a></td>`)
	shown := regexp.MustCompile(`(?:of ([^ ]+)|>([^ >]+) records?), the newest first`)
	number := func(text string) int {
		n, err := strconv.Atoi(regexp.MustCompile(`[^0-9]`).ReplaceAllString(text, ""))
		if err != nil {
			t.Errorf("%q is no number", text)
		}
		return n
	}
	behind := map[string]int{} // an address
	records := func(at string) int {
		if n, known := behind[at]; known {
			return n
		}
		n := 0
		if m := shown.FindStringSubmatch(body(t, h, at)); m != nil {
			n = number(m[1] + m[2])
		}
		behind[at] = n
		return n
	}
	for _, q := range []string{"", "class:gap", "-class:gap", "class:gap,action", "class:http", "proxy:p", "verdict:denied", "-verdict:denied", `host:""`, "*.a.test", "reason:*full*", "since:" + iso(noon.Add(-2*time.Hour)) + " until:" + iso(noon)} {
		all := records("/log?q=" + url.QueryEscape(q))
		pages := map[string]bool{"/?": false, "/workload?name=n%2Fs&": false, "/host?name=api.a.test&": false, "/flows?": false}
		for _, d := range dimensions {
			pages["/log?group="+d.Name+"&"] = true
		}
		for page, whole := range pages {
			sum := 0
			for _, x := range row.FindAllStringSubmatch(body(t, h, page+"q="+url.QueryEscape(q)), -1) {
				at, n := html.UnescapeString(x[1]), number(x[2])
				sum += n
				if got := records(at); got != n {
					t.Errorf("%s of %q has %d records, and %d behind %s", page, q, n, got, at)
				}
			}
			if whole && sum != all {
				t.Errorf("%s of %q has %d records of %d", page, q, sum, all)
			}
		}
	}
}
