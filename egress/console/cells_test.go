package console

import (
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// odd are records in which something is missing, or as long as it can be.
func odd() []record.Record {
	base := record.Record{Proxy: "p", Epoch: 1, Time: noon.Add(-time.Hour), Class: record.HTTP, Verdict: record.Allowed, Direction: record.Outbound, Protocol: "http"}
	var out []record.Record
	add := func(change func(*record.Record)) {
		r := base
		r.Seq = uint64(len(out) + 1)
		change(&r)
		r.Bound()
		out = append(out, r)
	}
	add(func(*record.Record) {})
	add(func(r *record.Record) {
		r.Class, r.Protocol, r.Host, r.Verdict = record.DNS, "dns", "a.test", record.Denied
	})
	add(func(r *record.Record) {
		r.Class, r.Protocol, r.Destination, r.Port = record.Network, "tcp", "203.0.113.9:5432", 5432
	})
	add(func(r *record.Record) {
		r.Class, r.Verdict, r.Protocol, r.Direction, r.Action, r.Actor, r.Reporter = record.Action, "", "", "", "approved", "ann", record.ReporterConsole
	})
	add(func(r *record.Record) {
		r.Method, r.Host, r.Port, r.Status = "GET", "\u05d0\u05d1.test", 443, 200
		r.URLPath, r.Reason = "/\u05d2\u05d3/12", "\u202egpj.\u3164"
		r.Workload = record.Workload{Namespace: "n", ServiceAccount: "s"}
	})
	add(func(r *record.Record) {
		long := func(n int) string { return strings.Repeat(`"*?\é`, n/6) }
		r.Method, r.Host, r.URLPath, r.Reason, r.Authority, r.Claim = "POST", strings.Repeat("a", 512), long(4096), long(1024), long(512), long(1024)
		r.Workload = record.Workload{Principal: strings.Repeat("p", 1024)}
		r.DecidedBy = record.Object{Kind: "EgressPolicy", Namespace: strings.Repeat("n", 256), Name: strings.Repeat("n", 256), Rule: long(512)}
	})
	return out
}

// TestEveryCellNarrows: what is beside a cell includes its record, or leaves it out, whatever the cell says and where it says nothing; and no link leads to a filter that is refused.
func TestEveryCellNarrows(t *testing.T) {
	records := odd()
	h := served(t, records, nil)
	all := url.Values{}
	for _, c := range columns {
		all.Add("col", c.Name)
	}
	cell := regexp.MustCompile(`(?s)<td class="c-(\w+)[^>]*>(.*?)</td>`)
	act := regexp.MustCompile(`<span class="act"><a href="([^"]*)"[^>]*>\+</a><a href="([^"]*)"`)
	expression := func(at string) query.Expression {
		t.Helper()
		u, err := url.Parse(html.UnescapeString(at))
		if err != nil {
			t.Fatal(err)
		}
		e, err := query.ParseExpression(u.Query().Get("q"))
		if err != nil {
			t.Errorf("%.300s: %v", at, err)
		}
		e.Terms = slices.DeleteFunc(e.Terms, func(t query.Term) bool { return t.Key == "seq" && !t.Not && len(e.Terms) > 1 })
		return e
	}
	fits := func(e query.Expression, r *record.Record) bool {
		t.Helper()
		f, err := e.Filter(noon, "24h")
		if err != nil {
			t.Error(err)
		}
		return f.Match(r) // which agrees with SQL, as tests of package query have it
	}
	with := map[string]int{}
	for i := range records {
		r := &records[i]
		page := body(t, h, "/log?"+all.Encode()+"&q=seq:"+number(r.Seq))
		if r.Class == record.Gap {
			continue
		}
		cells := cell.FindAllStringSubmatch(page, -1)
		if len(cells) != len(columns) {
			t.Fatalf("record %d: %d cells of %d columns", r.Seq, len(cells), len(columns))
		}
		for _, c := range cells {
			links := act.FindStringSubmatch(c[2])
			if links == nil {
				continue
			}
			with[c[1]]++
			if only, not := expression(links[1]), expression(links[2]); !fits(only, r) || c[1] != "seq" && fits(not, r) {
				t.Errorf("record %d, %s: + leaves it out, or − does not: %.300s", r.Seq, c[1], links[0])
			}
		}
	}
	for _, c := range columns {
		if with[c.Name] == 0 {
			t.Errorf("nothing narrows %s", c.Name)
		}
	}
	for _, name := range usual {
		if with[name] < len(records)-1 { // the longest has no room
			t.Errorf("%s narrows in %d of %d records", name, with[name], len(records))
		}
	}
	for _, r := range records {
		for _, to := range links(t, []byte(body(t, h, recordLink(&r)))) {
			if u, err := url.Parse(to); err != nil || u.Path == "" {
				continue
			} else if _, err := query.ParseExpression(u.Query().Get("q")); err != nil {
				t.Errorf("record %d leads to %.200s: %v", r.Seq, to, err)
			}
		}
	}
}

// TestTextsAreReadAsTheyAre: words that are written from right to left turn nothing beside them, and what nobody sees is said.
func TestTextsAreReadAsTheyAre(t *testing.T) {
	h := served(t, odd(), nil)
	for at, want := range map[string][]string{
		"/log":                          {"<bdi>\u05d0\u05d1</bdi>.test:443", "GET /<bdi>\u05d2\u05d3</bdi>/12 → 200", `\u202egpj.\u3164`},
		"/log?group=host":               {"<bdi>\u05d0\u05d1</bdi>.test"},
		"/log?group=reason":             {`\u202egpj.\u3164`},
		"/flows":                        {"<title>n/s → \u05d0\u05d1.test:", "<bdi>\u05d0\u05d1</bdi>.test"},
		"/host?name=\u05d0\u05d1.test":  {"</span> <bdi>\u05d0\u05d1</bdi>.test</h1>"},
		"/record?proxy=p&epoch=1&seq=5": {"<bdi>\u05d0\u05d1</bdi>.test:443</h1>", "/<bdi>\u05d2\u05d3</bdi>/12"},
		"/record?proxy=p&epoch=1&seq=4": {"<h1>approved by ann"},
		"/record?proxy=p&epoch=1&seq=1": {"No host</h1>"},
	} {
		text := body(t, h, at)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s does not say %q: %.3000s", at, w, text[strings.Index(text, "<main"):])
			}
		}
		if strings.Contains(text, "&lt;bdi") || strings.ContainsAny(text, "\u202e\u3164") {
			t.Errorf("%s has markup as text, or what turns it", at)
		}
	}
}

// TestOldRecordsLeadSomewhere: what the page of a record of long ago leads to holds the record.
func TestOldRecordsLeadSomewhere(t *testing.T) {
	r := scene(t)[0]
	r.Time = noon.Add(-9 * 24 * time.Hour)
	h := served(t, []record.Record{r}, nil)
	n := 0
	for _, to := range links(t, []byte(body(t, h, recordLink(&r)))) {
		u, err := url.Parse(to)
		if err != nil || u.Query().Get("q") == "" || strings.Contains(u.Query().Get("q"), "-") && strings.HasPrefix(u.Query().Get("q"), "-") {
			continue
		}
		n++
		text := body(t, h, to)
		if u.Path == "/log" && !strings.Contains(text, html.EscapeString(recordLink(&r))) || strings.Contains(text, "Nothing fits") {
			t.Errorf("%s does not hold it", to)
		}
	}
	if n < 10 {
		t.Errorf("%d links", n)
	}
}

// TestDomainsOfAddresses: addresses are of no domain.
func TestDomainsOfAddresses(t *testing.T) {
	var records []record.Record
	for i, host := range []string{"192.0.2.7", "198.51.2.7", "2001:db8::192.0.2.7", "[2001:db8::1]", "a.example.co.uk", "b.example.co.uk"} {
		records = append(records, record.Record{Proxy: "p", Epoch: 1, Seq: uint64(i + 1), Time: noon.Add(-time.Minute), Class: record.HTTP, Verdict: record.Allowed, Direction: record.Outbound, Host: host})
	}
	h := served(t, records, nil)
	text := body(t, h, "/log?group=domain")
	for _, want := range []string{">192.0.2.7<", ">198.51.2.7<", ">2001:db8::192.0.2.7<", ">[2001:db8::1]<", ">example.co.uk<"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s: %.3000s", want, text[strings.Index(text, "<main"):])
		}
	}
}
