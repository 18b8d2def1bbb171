package query

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the keys into docs/reference-filters.md")

// TestKeysAreWritten: the reference has each key, in words, with an example that can be read.
func TestKeysAreWritten(t *testing.T) {
	const file, begin, end = "../../../docs/reference-filters.md", "<!-- keys: written by go test ./egress/audit/query -update -->\n", "<!-- end of keys -->"
	var b strings.Builder
	b.WriteString("| key | what it is about | such as |\n|---|---|---|\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "| `%s` | %s | `%s` |\n", k.Name, k.Doc, k.Example)
		if e, err := ParseExpression(k.Example); err != nil || len(e.Terms) != 1 || e.Terms[0].Key != k.Name {
			t.Errorf("%s: the example %q: %v", k.Name, k.Example, err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	written, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s: the marks of the keys are not there", file)
	}
	if written == b.String() {
		return
	}
	if !*update {
		t.Fatalf("%s: the keys are not those of the code: go test ./egress/audit/query -update", file)
	}
	if err := os.WriteFile(file, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
