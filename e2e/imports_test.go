package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/sallyport/sallyport/e2e/story"
)

const module = "github.com/sallyport/sallyport/"

// direction is a rule about what packages may import directly. Patterns are import paths, those of this module
// without its name; "x/..." stands for x and everything below.
type direction struct {
	from   string   // who
	except []string // but not these
	not    []string // must not import
	unless []string // but may import these
}

// directions reads the table of docs/architecture.md.
func directions(t *testing.T) []direction {
	t.Helper()
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(content), "\n## Directions of imports\n")
	if !ok {
		t.Fatal("docs/architecture.md has no section on the directions of imports")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	found, err := parseDirections(section)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// parseDirections reads a table with the columns who, imports none of, but may, except, why. Patterns stand between
// backticks.
func parseDirections(section string) ([]direction, error) {
	var found []direction
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			return nil, fmt.Errorf("%d cells, want 5: %s", len(cells), line)
		}
		who := quoted(cells[0])
		d := direction{not: quoted(cells[1]), unless: quoted(cells[2]), except: quoted(cells[3])}
		if len(who) != 1 || len(d.not) == 0 || strings.TrimSpace(cells[4]) == "" {
			return nil, fmt.Errorf("a row says who, what not, and why: %s", line)
		}
		d.from = who[0]
		found = append(found, d)
	}
	if len(found) == 0 {
		return nil, errors.New("the table has no rows")
	}
	return found, nil
}

// quoted lists what stands between backticks.
func quoted(cell string) []string {
	var found []string
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			found = append(found, part)
		}
	}
	return found
}

func TestImportDirections(t *testing.T) {
	rows := directions(t)
	used := make([]bool, len(rows))
	for _, p := range load(t, module+"...") {
		name := strings.TrimPrefix(p.PkgPath, module)
		for i, d := range rows {
			if !matches(d.from, name) || matchesAny(d.except, name) {
				continue
			}
			used[i] = true
			for imported := range p.Imports {
				ours, isOurs := strings.CutPrefix(imported, module)
				if isOurs {
					imported = ours
				}
				if forbidden(d, imported, isOurs) {
					t.Errorf("%s imports %s: see docs/architecture.md for the direction of imports", name, imported)
				}
			}
		}
	}
	for i, d := range rows {
		if !used[i] {
			t.Errorf("docs/architecture.md: the row of %s is about no package", d.from)
		}
	}
}

func TestParseDirections(t *testing.T) {
	got, err := parseDirections("| who | not |\n|---|---|\n| `a/...` | `b` `c/...` | `c/d` | | why |\n| `e` | `...` | | `e/f` | why |\n")
	want := []direction{{from: "a/...", not: []string{"b", "c/..."}, unless: []string{"c/d"}}, {from: "e", not: []string{"..."}, except: []string{"e/f"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range []string{"", "| `a` | `b` | | |\n", "| `a` | `b` | | | |\n", "| `a` | | | | why |\n", "| `a` `b` | `c` | | | why |\n"} {
		if got, err := parseDirections(wrong); err == nil {
			t.Errorf("%q was read as %+v", wrong, got)
		}
	}
}

// TestAgentStaysSmall: the data plane's binary is in every pod.
func TestAgentStaysSmall(t *testing.T) {
	linked := map[string]bool{}
	packages.Visit(load(t, module+"cmd/sallyport-agent"), func(p *packages.Package) bool {
		linked[p.PkgPath] = true
		return true
	}, nil)
	for path := range linked {
		for _, heavy := range []string{"k8s.io/...", "istio.io/client-go/...", "github.com/duckdb/...", module + "serviceentry/...", module + "xds/translate/..."} {
			if matches(heavy, path) {
				t.Errorf("the agent links %s", path)
			}
		}
	}
}

// forbidden says whether the rule forbids the import. The pattern "..." stands for this module.
func forbidden(d direction, imported string, isOurs bool) bool {
	if matchesAny(d.unless, imported) {
		return false
	}
	return slices.ContainsFunc(d.not, func(pattern string) bool {
		if pattern == "..." {
			return isOurs
		}
		return matches(pattern, imported)
	})
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

func matches(pattern, path string) bool {
	prefix, below := strings.CutSuffix(pattern, "...")
	if !below {
		return pattern == path
	}
	return strings.HasPrefix(path, prefix) || path+"/" == prefix
}

func load(t *testing.T, pattern string) []*packages.Package {
	t.Helper()
	found, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps}, pattern)
	if err != nil {
		t.Fatal(err)
	}
	if packages.PrintErrors(found) > 0 {
		t.Fatal("packages do not load")
	}
	return found
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"xds/...", "xds", true}, {"xds/...", "xds/serve", true}, {"xds/...", "xdsx", false},
		{"xds", "xds/serve", false}, {"xds", "xds", true}, {"...", "anything", true},
	} {
		if got := matches(c.pattern, c.path); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.pattern, c.path, got)
		}
	}
}
