package report_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/simulate"
	"github.com/sallyport/sallyport/egress/simulate/report"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// hostile is a report whose texts somebody chose who wants more than to be read.
func hostile() *simulate.Report {
	bad := "<script>x</script>\x1b[2J\u202e|`@all` https://evil.test [a](b)"
	side := simulate.Side{Verdict: "deny", DecidedBy: policy.DecidedBy{Kind: "EgressPolicy", Namespace: "a", Name: "b", Rule: bad}, Reason: bad}
	at := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	return &simulate.Report{
		Until: at, Records: 3, Distinct: 2, Inputs: simulate.Totals{NewlyDenied: 1}, NotReproducible: 1, Gaps: 4,
		NewlyDenied: []simulate.Change{{
			Workload: simulate.Workload{Namespace: "a", Name: bad}, Host: bad, Port: 443, Protocol: "tls", Inputs: 1, Records: 2, First: at, Last: at,
			Before: side, After: side, Examples: []simulate.Example{{Method: "GET", Path: bad, Records: 2}},
		}},
		NewlyAllowed: []simulate.Change{}, WouldDeny: []simulate.Change{},
		Why: []simulate.Why{{Why: bad, Inputs: 1, Records: 1, Examples: []string{bad}}},
	}
}

func TestWrite(t *testing.T) {
	for format, wants := range map[string][]string{
		"table":    {"3 records, 2 distinct inputs", "1 newly denied", "4 records missing in the log", "Newly allowed: 0 inputs", "Not reproducible: 1 input", "What a denial would have prevented"},
		"markdown": {"#### Newly denied: 1 input", "\\|\\`&#64;all\\`", "&lt;script\\>"},
		"html":     {"<h2>Newly denied: 1</h2>", "&lt;script&gt;x&lt;/script&gt;", "Nothing that is denied now would be allowed."},
	} {
		var b bytes.Buffer
		if err := report.Write(&b, format, hostile()); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", format, want, text)
			}
		}
		if strings.ContainsAny(text, "\x1b\u202e") {
			t.Errorf("%s: a terminal obeys it", format)
		}
		if format != "table" && (strings.Contains(text, "<script>") || format == "markdown" && (strings.Contains(text, "https://evil") || strings.Contains(text, "[a](b)"))) {
			t.Errorf("%s: it is more than text:\n%s", format, text)
		}
	}
	if err := report.Write(&bytes.Buffer{}, "xml", hostile()); err == nil {
		t.Error("an unknown format was taken")
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := report.Write(&b, "json", hostile()); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"records", "distinct", "newlyDenied", "newlyAllowed", "notReproducible", "gaps", "notes"} {
		if _, there := got[key]; !there {
			t.Errorf("no %s in %s", key, b.String())
		}
	}
	if list, ok := got["newlyAllowed"].([]any); !ok || len(list) != 0 {
		t.Errorf("%v is no empty list", got["newlyAllowed"])
	}
}
