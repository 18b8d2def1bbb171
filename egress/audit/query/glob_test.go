package query

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestAsItIs: what others wrote is found and left out as it is, also where it is written in what stands for any text: who asks for a path "/*" does not want to see
// everything, and who leaves it out does not want to see nothing.
func TestAsItIs(t *testing.T) {
	texts := []string{"*", "?", `\`, `\*`, `\\*`, "/*", "/a", `/\a`, `/\\a`, "a?b", "axb", `%_\`, `"*"`, "* *"}
	var records []record.Record
	for i, text := range texts {
		records = append(records, rec(i+1, func(r *record.Record) { r.Host, r.URLPath, r.Workload.Labels = "h.test", text, "app="+text }))
	}
	db := filled(t, records...)
	choose := func(written string) (found []string) {
		t.Helper()
		e, err := ParseExpression(written)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if again, err := ParseExpression(e.String()); err != nil || !again.Terms[0].equal(e.Terms[0]) {
			t.Errorf("%s is written %s, which is %v, %v", written, e, again, err)
		}
		f := Filter{Terms: e.Terms}
		if err := Each(t.Context(), db, f, func(r record.Record) error {
			found = append(found, r.URLPath)
			return nil
		}); err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		for i := range records {
			if f.Match(&records[i]) != slices.Contains(found, texts[i]) {
				t.Errorf("%s: the database and Match differ about %s", written, texts[i])
			}
		}
		return found
	}
	for i, text := range texts {
		for _, term := range []Term{{Key: "url", Values: []string{Literally(text)}}, {Key: "label", Values: []string{Literally("app=" + text)}}} {
			if got := choose(term.String()); !slices.Equal(got, texts[i:i+1]) {
				t.Errorf("%s finds %q", term, got)
			}
			term.Not = true
			if got := choose(term.String()); len(got) != len(texts)-1 || slices.Contains(got, text) {
				t.Errorf("%s finds %q", term, got)
			}
		}
	}
	for written, want := range map[string][]string{
		`url:/\*`:   {"/*"},
		`url:"/\*"`: {"/*"},
		`url:/*`:    {"/*", "/a", `/\a`, `/\\a`},
		`url:"/*"`:  {"/*", "/a", `/\a`, `/\\a`},
		`url:/\a`:   {`/\a`}, // nothing is special about what follows
		`url:\\\*`:  {`\*`},
		`url:a\?b`:  {"a?b"},
		`url:a?b`:   {"a?b", "axb"},
		`url:\`:     {`\`},
		`url:"\\"`:  {`\`},
	} {
		if got := choose(written); !slices.Equal(got, want) {
			t.Errorf("%s finds %q, want %q", written, got, want)
		}
	}
	for text, want := range map[string]string{"a": "*a*", "*a*": "*a*", `a\*`: `*a\**`, `a\\*`: `*a\\*`, "**": "**", `\*`: `*\**`} {
		if got := around(text); got != want {
			t.Errorf("a host with %s is %s, want %s", text, got, want)
		}
	}
}
