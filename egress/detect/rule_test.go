package detect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/ocsf/ocsftest"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/detect"
)

// TestBuiltIn: what comes with the program says all that a header can say.
func TestBuiltIn(t *testing.T) {
	rules := detect.BuiltIn()
	if len(rules) != 13 {
		t.Errorf("%d rules", len(rules))
	}
	for _, r := range rules {
		if r.Why == "" || r.Tuning == "" || r.FalsePositives == "" {
			t.Errorf("%s: its header leaves out why, tuning or false positives", r.ID)
		}
		if !strings.HasPrefix(r.ID, "rule-") && len(r.Attack) == 0 {
			t.Errorf("%s: its header names no technique", r.ID)
		}
		if !strings.HasSuffix(r.File, r.ID+".sql") {
			t.Errorf("%s is in %s", r.ID, r.File)
		}
	}
}

// header is that of a good rule.
const header = "-- id: mine\n-- title: T\n-- severity: low\n-- finds: F\n"

const columns = "'n' AS namespace, 'w' AS workload, 'h' AS host, $since AS first, $until AS last, 1 AS count"

func TestParse(t *testing.T) {
	r, err := detect.Parse("f.sql", header+"-- why: it\n--   goes on\n-- attack: T1071, TA0011\n-- param some texts = a, b: which\n\nSELECT 1")
	if err != nil || r.Why != "it goes on" || len(r.Attack) != 2 || r.Params[0].Doc != "which" || r.Severity != detect.Low {
		t.Errorf("%+v %v", r, err)
	}
	for text, want := range map[string]string{
		"SELECT 1":      `no field "id"`,
		"-- id: Mine\n": `line 1: id "Mine"`,
		"-- id: mine\n-- title: T\n-- finds: F\nSELECT 1":                 `no field "severity"`,
		"-- id: mine\n-- severity: bad\n":                                 `line 2: severity "bad": it is one of informational`,
		header + "-- colour: red\n":                                       `line 5: "colour" is no field`,
		header + "-- just words\n":                                        `line 5: "-- just words"`,
		header + "-- attack: beacons\n":                                   `line 5: attack "beacons"`,
		header + "-- needs: luck\n":                                       `line 5: needs "luck"`,
		header + "-- param x = 1: what\n":                                 `line 5: "param x = 1": write param NAME TYPE`,
		header + "-- param x integer = 1; DROP TABLE records: w\n":        `line 5: param x: x is "1; DROP TABLE records"`,
		header + "-- param x number = 1e9: w\n":                           `line 5: param x: x is "1e9"`,
		header + "-- param x duration = soon: w\n":                        `line 5: param x: x is "soon"`,
		header + "-- param since integer = 1: w\n":                        `line 5: param "since": the name is taken`,
		header + "-- param x integer = 1: w\n-- param x integer = 1: w\n": `line 6: param "x": the name is taken`,
	} {
		if _, err := detect.Parse("f.sql", text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "f.sql: ") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(header + "SELECT $since, '$x', $domain -- $y")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = detect.Parse("f.sql", text) })
}

func TestSettings(t *testing.T) {
	rules := detect.BuiltIn()
	if s, err := detect.ParseSettings([]string{"beacon.connections=6", "beacon.allow=a.test,b'.test"}, rules); err != nil || s["beacon"]["connections"] != "6" {
		t.Errorf("%v %v", s, err)
	}
	for text, want := range map[string]string{
		"beacon": "write ID.PARAM=VALUE", "nope.x=1": `no rule "nope"`, "beacon.x=1": `no parameter "x"; it has: connections`,
		"beacon.connections=many": "write an integer", "beacon.score=0.5)": "write a number", "beacon.shortest=-1s": "write a duration",
	} {
		if _, err := detect.ParseSettings([]string{text}, rules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// ruleDir makes a folder of rules.
func ruleDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSlowRule: a rule that would go on for ever is ended, and said.
func TestSlowRule(t *testing.T) {
	dir := ruleDir(t, map[string]string{
		"slow.sql": strings.Replace(header, "mine", "slow", 1) + "SELECT " + columns + ", count(*) AS n FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3",
	})
	own, err := detect.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := newCorpus(1)
	c.one(end.Add(-time.Hour), "w", "h")
	report, err := detect.Run(t.Context(), c.stored(t), own, window(), detect.Options{Within: time.Second, Limit: 5})
	if err != nil || len(report.Failed) != 1 || !strings.Contains(report.Failed[0].Why, "longer than 1s") {
		t.Errorf("%+v, %v", report.Failed, err)
	}
}

// TestOwnRules: a rule that is broken is named, with its line and DuckDB's words, and stops no other.
func TestOwnRules(t *testing.T) {
	head := func(id string) string { return strings.Replace(header, "mine", id, 1) }
	dir := ruleDir(t, map[string]string{
		"no-header.sql":  "SELECT 1",
		"taken.sql":      head("beacon") + "SELECT " + columns,
		"long.sql":       head("long") + strings.Repeat("-- \n", 40_000),
		"notes.txt":      "not a rule",
		"a-good.sql":     head("a-good") + "-- param n integer = 3: how many\nSELECT " + columns + ", $n AS n, '$n' AS text -- $nothing\n ; \n",
		"b-syntax.sql":   head("b-syntax") + "\nSELECT " + columns + "\nFROM traffic WHERE host LIKE\n",
		"c-column.sql":   head("c-column") + "\nSELECT " + columns + "\nFROM traffic\nWHERE colour = 'red'",
		"d-write.sql":    head("d-write") + "SELECT 1) LIMIT 1; DROP TABLE records; SELECT (1",
		"e-missing.sql":  head("e-missing") + "SELECT 1 AS namespace",
		"m-first.sql":    head("m-first") + "SELECT 'n' AS namespace, 'w' AS workload, 'h' AS host, 1 AS count",
		"f-file.sql":     head("f-file") + "SELECT " + columns + ", content FROM read_text('/etc/passwd')",
		"g-name.sql":     head("g-name") + "SELECT " + columns + "\nWHERE 1 = $nobody",
		"i-many.sql":     head("i-many") + "SELECT " + columns + " FROM range(1000000)",
		"j-type.sql":     head("j-type") + "SELECT * REPLACE ('soon' AS first) FROM (SELECT " + columns + ")",
		"l-escape.sql":   head("l-escape") + "SELECT " + columns + ", (host || chr(27) || '[31m')::INTEGER AS n FROM traffic",
		"o-nan.sql":      head("o-nan") + "SELECT " + columns + ", 'NaN'::DOUBLE AS score",
		"p-endless.sql":  head("p-endless") + "SELECT * REPLACE ('Infinity'::DOUBLE AS count) FROM (SELECT " + columns + ")",
		"q-overflow.sql": head("q-overflow") + "SELECT " + columns + ", 9223372036854775806 + range AS n FROM range(1000)",
		"r-multiply.sql": head("r-multiply") + "SELECT * REPLACE (count * 9223372036854775807 * 2 AS count) FROM (SELECT " + columns + " FROM traffic)",
		"s-huge.sql":     head("s-huge") + "SELECT * REPLACE (10::HUGEINT ** 30 AS count) FROM (SELECT " + columns + ")",
		"t-literal.sql":  head("t-literal") + "SELECT " + columns + ", 1e999::INTEGER AS n",
		"k-severity.sql": head("k-severity") + "SELECT " + columns + ", 'critical' AS severity, NULL AS port, 0.5::DECIMAL(3,2) AS score",
	})
	own, err := detect.LoadDir(dir)
	for _, want := range []string{"no-header.sql: line 1: the header has no field", "long.sql: a rule has 65536 bytes at most"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err = detect.Merge(detect.BuiltIn(), own); err == nil || !strings.Contains(err.Error(), `id "beacon" is that of built in: beacon.sql`) {
		t.Error(err)
	}
	c := newCorpus(1)
	c.one(end.Add(-time.Hour), "w", "h")
	report, err := detect.Run(t.Context(), c.stored(t), own, window(), detect.Options{Within: 5 * time.Minute, Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, note := range report.Failed {
		why[note.Rule] = note.Why
	}
	for id, want := range map[string]string{
		"b-syntax": "LINE 8", "c-column": `"colour" not found`, "d-write": "", "e-missing": "must have the columns namespace, workload, host", "m-first": `no column "first"`, "f-file": "disabled by configuration",
		"g-name": "line 6: there is no $nobody; there are $domain, $feed", "l-escape": `\x1b[31m`, "j-type": `column "first": "soon" is no time`,
		"q-overflow": "Overflow in addition", "r-multiply": "Overflow in multiplication", "t-literal": "",
		"o-nan": `column "score": "NaN" is no number`, "p-endless": `column "count": "+Inf" is no number`,
	} {
		if got, broke := why[id]; !broke || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
		delete(why, id)
	}
	if len(why) > 0 {
		t.Errorf("broke as well: %v", why)
	}
	n := map[string]int{}
	for _, f := range report.Findings {
		n[f.Detection]++
		if f.Detection == "a-good" && (f.Evidence["text"] != "$n" || f.Count != 1 || !f.Last.Equal(end)) {
			t.Errorf("%+v", f)
		}
		if f.Detection == "s-huge" && f.Count != 1<<63 {
			t.Errorf("%+v", f)
		}
		if f.Detection == "k-severity" && (f.Severity != detect.Critical || f.Score != 0.5) {
			t.Errorf("%+v", f)
		}
	}
	if n["a-good"] != 1 || n["i-many"] != 5 || n["k-severity"] != 1 || n["s-huge"] != 1 || n["beacon"] != 1 || len(report.More) != 1 || report.More[0] != "i-many" {
		t.Errorf("%v %v", n, report.More)
	}
}

// TestPolicies: rules of policies that end, and those that nothing uses.
func TestPolicies(t *testing.T) {
	c := newCorpus(1)
	uses := func(days int, rule string) {
		c.one(end.Add(-time.Duration(days)*day-time.Hour), "w", "h.test", func(r *record.Record) {
			r.AllowedBy = record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "list", Rule: rule}
		})
	}
	uses(50, "old")
	uses(0, "ends")
	uses(0, "stays")
	uses(0, "ends-late")
	c.one(end.Add(-time.Hour), "w", "h.test", denied, func(r *record.Record) {
		r.DecidedBy = record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "list", Rule: "denies"}
	})
	rule := func(name string, ends time.Time) detect.PolicyRule {
		return detect.PolicyRule{Namespace: "shop", Policy: "list", Rule: name, Ends: ends}
	}
	young := rule("young's", time.Time{})
	young.Since = end.Add(-day)
	in := detect.Inputs{Rules: []detect.PolicyRule{rule("old", time.Time{}), rule("ends", end.Add(2*day)), rule("stays", time.Time{}), rule("ends-late", end.Add(30*day)),
		rule("denies", time.Time{}), young, rule("over", end.Add(-time.Hour)), rule("n'ever", time.Time{})}}
	report := run(t, c.stored(t), detect.BuiltIn(), detect.Options{Inputs: in})
	got := map[string][]any{}
	for _, f := range report.Findings {
		got[f.Detection] = append(got[f.Detection], f.Evidence["rule"])
	}
	if e := got["rule-expiring"]; len(e) != 1 || e[0] != "ends" {
		t.Errorf("expiring: %v", e)
	}
	if u := got["rule-unused"]; len(u) != 2 || u[0] != "n'ever" || u[1] != "old" {
		t.Errorf("unused: %v", u)
	}
	if len(report.Skipped) != 2 || report.Skipped[0].Rule != "feed" || !strings.Contains(report.Skipped[0].Why, "--feed FILE") || !strings.Contains(report.Skipped[1].Why, "no controller says") {
		t.Errorf("%v", report.Skipped)
	}
}

func TestFeed(t *testing.T) {
	feed, err := detect.ReadFeed(strings.NewReader("\n# all\nBad.test.\n*.worse.test # below\n0.0.0.0 hosts.test\n"))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"bad.test": "bad.test", "a.b.bad.test": "bad.test", "notbad.test": "", "test": "", "": "", "x.worse.test": "worse.test", "hosts.test": "hosts.test", "..": "",
	} {
		if got := feed.Match(host); got != want {
			t.Errorf("%q: %q", host, got)
		}
	}
	for text, want := range map[string]string{"ok.test\nhttp://x\n": "line 2", "a b\n": "line 1", strings.Repeat("x", 254): "line 1", "*.*\n": "line 1"} {
		if _, err := detect.ReadFeed(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestHostileRecords: what clients write breaks no rule, no output, and gets to no terminal.
func TestHostileRecords(t *testing.T) {
	c := newCorpus(1)
	c.clean(0.2)
	for i, host := range hostile { // new, regular, denied, of the feed: every rule has to do with them
		for n := range 40 {
			at := end.Add(-time.Duration(n*6+1)*time.Minute - time.Duration(i)*time.Second)
			c.one(at, "app-1", host+".evil.test", passthrough)
			c.one(at, "app-2", strings.Repeat(host, 1+n%7)+".evil.test", name)
			c.one(at, host, host, denied, func(r *record.Record) {
				r.Workload.Namespace, r.Proxy, r.Reason = host, "sidecar~"+host+"~"+host+"~x", host
			})
		}
	}
	feed, err := detect.ReadFeed(strings.NewReader("evil.test\ntest"))
	if err != nil {
		t.Fatal(err)
	}
	log := c.stored(t)
	report := run(t, log, detect.BuiltIn(), detect.Options{Inputs: detect.Inputs{Feed: feed, Rules: []detect.PolicyRule{{Namespace: hostile[0], Policy: hostile[1], Rule: hostile[2]}}}})
	rules := map[string]bool{}
	for _, f := range report.Findings {
		rules[f.Detection] = true
		if len(f.Host) > 520 || len(f.Namespace) > 520 {
			t.Errorf("%d bytes of %s", len(f.Host), f.Detection)
		}
	}
	for _, id := range []string{"beacon", "feed", "denied-burst", "first-seen-host"} {
		if !rules[id] {
			t.Errorf("%s found nothing", id)
		}
	}
	for _, format := range detect.Formats {
		var out bytes.Buffer
		if err := report.Write(&out, format); err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(bytes.NewReader(out.Bytes())); format != "table"; {
			var event map[string]any
			if err := lines.Decode(&event); err != nil {
				if out.Len() == 0 || lines.InputOffset() < int64(out.Len())-2 {
					t.Errorf("%s: %v", format, err)
				}
				break
			}
		}
		for _, bad := range []string{"\x1b", "\u202e", "\x00"} {
			if format == "table" && strings.Contains(out.String(), bad) {
				t.Errorf("%q gets to the terminal", bad)
			}
		}
		if format == "table" && strings.Count(out.String(), "\n") != len(report.Findings)+1 {
			t.Errorf("%d lines for %d findings", strings.Count(out.String(), "\n"), len(report.Findings))
		}
	}
	n := 0
	if err := log.QueryRowContext(t.Context(), "SELECT count(*) FROM records").Scan(&n); err != nil || n < 1000 {
		t.Errorf("%d records, %v", n, err)
	}
}

// TestClaims: what one workload's proxies say of numbers, as large as they can be, keeps nobody else's traffic from being looked at, nor is it made small.
func TestClaims(t *testing.T) {
	c := newCorpus(1)
	c.clean(0.2)
	want := c.bad()
	for at := begins(); at.Before(end); at = at.Add(time.Hour) {
		for _, n := range []uint64{math.MaxUint64, math.MaxInt64, 1 << 62} {
			c.one(at, "liar", "lies.test", sized(n, n, math.MaxInt64))
		}
	}
	for n := range 3 {
		c.one(end.Add(-time.Hour), "", "", func(r *record.Record) {
			*r = record.Record{Proxy: "sidecar~10.0.6.6~liar-0.lies~lies.svc", Epoch: 1, Seq: uint64(n + 1), Time: r.Time, Class: record.Gap, Count: math.MaxUint64}
		})
	}
	report := run(t, c.stored(t), detect.BuiltIn(), detect.Options{Inputs: inputs(t)})
	got := found(report)
	for rule, each := range want {
		for _, bad := range each {
			if !slices.Contains(got[rule], bad) {
				t.Errorf("%s: %s is not found", rule, bad)
			}
		}
	}
	at := slices.IndexFunc(report.Findings, func(f detect.Finding) bool { return f.Detection == "gap" && f.Namespace == "lies" })
	if at < 0 || fmt.Sprint(report.Findings[at].Evidence["lost"]) != "55340232221128654845" {
		t.Errorf("what is lost is not found, or less: %v", report.Findings)
	}
}

func TestOCSF(t *testing.T) {
	f := detect.Finding{ID: "beacon-1", Detection: "beacon", Title: "T", Severity: detect.High, Attack: []string{"T1071.001", "TA0011"}, Namespace: "shop",
		Workload: "cart", Host: "c2.test", Port: 443, First: end.Add(-time.Hour), Last: end, Count: 12, Score: 0.8, Evidence: map[string]any{"every": 300}}
	b, err := json.Marshal(f.OCSF(end))
	ocsftest.Check(t, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"class_uid":2004`, `"type_uid":200401`, `"category_uid":2`, `"severity_id":4`, `"severity":"High"`, `"confidence_score":80`,
		`"uid":"beacon-1"`, `"sub_technique":{"uid":"T1071.001"}`, `"tactic":{"uid":"TA0011"}`, `"hostname":"c2.test","port":443`, `"name":"shop/cart"`, `"data":{"every":300}`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
}

// TestNeighbours: however much one namespace does, what another one has is found.
func TestNeighbours(t *testing.T) {
	c := newCorpus(1)
	for i := range 6000 {
		c.one(end.Add(-time.Hour-time.Duration(i)*time.Second), "loud", fmt.Sprintf("a%d.bad.test", i), name, func(r *record.Record) { r.Workload.Namespace = "a" })
	}
	c.one(end.Add(-time.Hour), "quiet", "b.bad.test", name, func(r *record.Record) { r.Workload.Namespace = "b" })
	feed, err := detect.ReadFeed(strings.NewReader("bad.test"))
	if err != nil {
		t.Fatal(err)
	}
	rules := slices.DeleteFunc(detect.BuiltIn(), func(r *detect.Rule) bool { return r.ID != "feed" })
	report := run(t, c.stored(t), rules, detect.Options{Inputs: detect.Inputs{Feed: feed}, Limit: 20})
	of := map[string]int{}
	for _, f := range report.Findings {
		of[f.Namespace]++
	}
	if of["a"] != 20 || of["b"] != 1 || len(report.More) != 1 {
		t.Errorf("%v, more of %v", of, report.More)
	}
}

// TestManyNeighbours: nor do many namespaces together push out what one has.
func TestManyNeighbours(t *testing.T) {
	c := newCorpus(1)
	for i := range 6000 {
		c.one(end.Add(-time.Hour-time.Duration(i)*time.Second), "loud", fmt.Sprintf("a%d.bad.test", i), name, func(r *record.Record) { r.Workload.Namespace = fmt.Sprint("a-", i/200) })
	}
	c.one(end.Add(-time.Hour), "quiet", "b.bad.test", name, func(r *record.Record) { r.Workload.Namespace = "b" })
	feed, err := detect.ReadFeed(strings.NewReader("bad.test"))
	if err != nil {
		t.Fatal(err)
	}
	rules := slices.DeleteFunc(detect.BuiltIn(), func(r *detect.Rule) bool { return r.ID != "feed" })
	report := run(t, c.stored(t), rules, detect.Options{Inputs: detect.Inputs{Feed: feed}})
	if !slices.ContainsFunc(report.Findings, func(f detect.Finding) bool { return f.Namespace == "b" }) || len(report.Findings) != detect.MaxFindings {
		t.Errorf("%d findings, and none of b", len(report.Findings))
	}
}

// TestEnd: the end of the caller's context is an error, and not a broken rule.
func TestEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := detect.Run(ctx, refusing{}, detect.BuiltIn(), window(), detect.Options{})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type refusing struct{}

func (refusing) SQL(ctx context.Context, _ string, _ query.RowSink) error { return ctx.Err() }
