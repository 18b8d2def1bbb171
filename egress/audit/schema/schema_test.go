package schema

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

var update = flag.Bool("update", false, "rewrite the table in docs/how-to/audit-log.md")

// fieldsOf are the paths of a record's JSON.
func fieldsOf(t reflect.Type, prefix string) (out []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]() {
			out = append(out, fieldsOf(f.Type, prefix+name+".")...)
			continue
		}
		out = append(out, prefix+name)
	}
	return out
}

// TestEveryFieldIsAColumn: a field that somebody adds to the record is one here.
func TestEveryFieldIsAColumn(t *testing.T) {
	var have []string
	names := map[string]bool{}
	for _, c := range Columns {
		have = append(have, c.JSON)
		if names[c.Name] || c.Doc == "" || strings.Contains(c.Doc, "\n") || c.Since < 1 || c.Since > Version {
			t.Errorf("column %q: names are there once, have a line of words, and a version", c.Name)
		}
		names[c.Name] = true
	}
	want := fieldsOf(reflect.TypeFor[record.Record](), "")
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("the columns are of the fields\n%q, a record has\n%q", have, want)
	}
}

// TestTypesStay: what was written once stays readable beside what is written now.
func TestTypesStay(t *testing.T) {
	types := map[int][]string{}
	for _, c := range Columns {
		types[c.Since] = append(types[c.Since], c.Name+" "+c.Type)
	}
	for version, want := range map[int]string{
		1: "proxy VARCHAR, epoch UBIGINT, seq UBIGINT, time TIMESTAMPTZ, class VARCHAR, verdict VARCHAR, path VARCHAR, reporter VARCHAR, " +
			"principal VARCHAR, namespace VARCHAR, service_account VARCHAR, workload VARCHAR, source VARCHAR, claim VARCHAR, forwarded_for VARCHAR, " +
			"host VARCHAR, port UINTEGER, sni VARCHAR, authority VARCHAR, destination VARCHAR, protocol VARCHAR, method VARCHAR, url_path VARCHAR, " +
			"status UINTEGER, cluster VARCHAR, route VARCHAR, decided_by_kind VARCHAR, decided_by_namespace VARCHAR, decided_by_name VARCHAR, " +
			"decided_by_rule VARCHAR, reason VARCHAR, bytes_sent UBIGINT, bytes_received UBIGINT, duration_ns BIGINT, flags VARCHAR, lost UBIGINT, cut VARCHAR",
		2: "direction VARCHAR, labels VARCHAR, dialled VARCHAR, destination_principal VARCHAR, destination_namespace VARCHAR, " +
			"destination_service_account VARCHAR, destination_workload VARCHAR, destination_labels VARCHAR, decided_by_revision VARCHAR",
		3: "allowed_by_kind VARCHAR, allowed_by_namespace VARCHAR, allowed_by_name VARCHAR, allowed_by_rule VARCHAR, allowed_by_revision VARCHAR, " +
			"would_deny_kind VARCHAR, would_deny_namespace VARCHAR, would_deny_name VARCHAR, would_deny_rule VARCHAR, would_deny_revision VARCHAR",
		4: "actor VARCHAR, actor_by VARCHAR, action VARCHAR",
	} {
		if got := strings.Join(types[version], ", "); got != want {
			t.Errorf("version %d has the columns\n%s, want\n%s", version, got, want)
		}
	}
	if len(types) != Version {
		t.Errorf("columns of %d versions, of %d", len(types), Version)
	}
}

// TestDocs: the how-to lists the columns that there are. Rewrite its table with -update.
func TestDocs(t *testing.T) {
	const file, begin, end = "../../../docs/how-to/audit-log.md", "<!-- columns: written by go test ./egress/audit/schema -update -->\n", "<!-- end of columns -->\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q … %q", file, begin, end)
	}
	var b strings.Builder
	b.WriteString("| column | type | in JSON | what it says |\n|---|---|---|---|\n")
	for _, c := range Columns {
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", c.Name, c.Type, c.JSON, c.Doc)
	}
	if b.String() == table {
		return
	}
	if !*update {
		t.Fatalf("%s lists other columns than there are: run this test with -update", file)
	}
	if err := os.WriteFile(file, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestReasonTellsRules: who looks at a table for policies sees which rules they were.
func TestReasonTellsRules(t *testing.T) {
	one := record.Object{Kind: record.EgressPolicy, Namespace: "shop", Name: "list", Rule: "one"}
	for want, r := range map[string]record.Record{
		"registered": {Reason: "registered"},
		"registered; allowed by EgressPolicy shop/list one":           {Reason: "registered", AllowedBy: one},
		"would be denied by EgressPolicy shop/list one":               {WouldDeny: one},
		"3 records lost: full":                                        {Class: record.Gap, Count: 3, Reason: "full"},
		"a; allowed by Kind n; would be denied by EgressPolicy x/y z": {Reason: "a", AllowedBy: record.Object{Kind: "Kind", Name: "n"}, WouldDeny: record.Object{Kind: record.EgressPolicy, Namespace: "x", Name: "y", Rule: "z"}},
	} {
		cells := Cells(&r)
		if got := cells[len(cells)-1]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestStorable(t *testing.T) {
	for in, want := range map[string]string{"": "", "plain": "plain", "ü": "ü", "a\x00b": "a\uFFFDb", "\xff": "\uFFFD", "\xff\x00": "\uFFFD\uFFFD"} {
		if got := Storable(in); got != want {
			t.Errorf("%q is stored as %q, want %q", in, got, want)
		}
	}
}
