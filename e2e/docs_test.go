package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/e2e/story"
)

// What a document says of the tree: links, paths and tests.
var (
	links     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpans = regexp.MustCompile("`([^`\n]+)`")
	aPath     = regexp.MustCompile(`^(chart|cmd|config|dnsproxy|docs|e2e|egress|serviceentry|sidecar|xds)/[A-Za-z0-9_./-]+$`)
	aTest     = regexp.MustCompile(`^(Test|Benchmark|Fuzz)[A-Z]\w*$`)
	declares  = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)[A-Z]\w*)\(`)
	titles    = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// TestDocsPointAtWhatIsThere: links lead somewhere, and paths and tests that documents name exist.
func TestDocsPointAtWhatIsThere(t *testing.T) {
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	tests := declaredTests(t, root)
	for _, file := range append(documents(t, root), filepath.Join(root, "chart", "README.md")) {
		text := read(t, file)
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			if problem := deadLink(t, file, link[1]); problem != "" {
				t.Errorf("%s: %s", file, problem)
			}
		}
		for _, span := range codeSpans.FindAllStringSubmatch(text, -1) {
			name := strings.TrimSuffix(span[1], "/...")
			if aPath.MatchString(name) {
				if _, err := os.Stat(filepath.Join(root, strings.TrimSuffix(name, "/"))); err != nil {
					t.Errorf("%s names %s, which is not there", file, name)
				}
			}
			if aTest.MatchString(name) && !tests[name] {
				t.Errorf("%s names %s, which is no test", file, name)
			}
		}
	}
}

// TestHowTosAreFound: README links every how-to, and architecture's reader finds the glossary.
func TestHowTosAreFound(t *testing.T) {
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	readme, architecture := read(t, filepath.Join(root, "README.md")), read(t, filepath.Join(root, "docs", "architecture.md"))
	howTos, err := filepath.Glob(filepath.Join(root, "docs", "how-to", "*.md"))
	if err != nil || len(howTos) == 0 {
		t.Fatalf("%v: %v", howTos, err)
	}
	for _, file := range howTos {
		if link := "(docs/how-to/" + filepath.Base(file) + ")"; !strings.Contains(readme, link) {
			t.Errorf("README.md does not link %s", link)
		}
	}
	if !strings.Contains(readme, "(docs/glossary.md)") || !strings.Contains(architecture, "(glossary.md)") {
		t.Error("README.md and docs/architecture.md link the glossary")
	}
}

// deadLink says what is wrong with a link of a document; "" when it leads to a file, and to a title of it.
func deadLink(t *testing.T, file, link string) string {
	t.Helper()
	path, anchor, _ := strings.Cut(link, "#")
	if strings.Contains(path, "://") {
		return "" // not asked for: a test has no way out
	}
	target := file
	if path != "" {
		target = filepath.Join(filepath.Dir(file), path)
	}
	info, err := os.Stat(target)
	if err != nil {
		return link + " leads nowhere"
	}
	if anchor == "" || info.IsDir() {
		return ""
	}
	for _, title := range titles.FindAllStringSubmatch(read(t, target), -1) {
		if anchorOf(title[1]) == anchor {
			return ""
		}
	}
	return link + ": there is no such title"
}

// anchorOf is a title as renderers of Markdown make an anchor of it.
func anchorOf(title string) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
			return r
		}
		return -1
	}, strings.ToLower(strings.TrimSpace(title)))
	return kept
}

// declaredTests lists the tests of the module.
func declaredTests(t *testing.T, root string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, entry.Name()) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, f := range declares.FindAllStringSubmatch(read(t, path), -1) {
				found[f[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// What the table of places says of files: a file alone, below the folder named before or anywhere, and what is declared in one.
var (
	aFile = regexp.MustCompile(`^[a-z0-9_/]+\.(go|proto|tpl)$`)
	inOne = regexp.MustCompile("((?:`[A-Za-z_.]+`(?:, | and )?)+) in `([\\w./-]+)`")
)

// TestArchitecturePointsAtWhatIsThere: the files that docs/architecture.md names by a part of their path are in the tree, and what it says is in
// a file or a package is there.
func TestArchitecturePointsAtWhatIsThere(t *testing.T) {
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	tree := goFiles(t, root)
	doc := read(t, filepath.Join(root, "docs", "architecture.md"))
	for _, span := range codeSpans.FindAllStringSubmatch(doc, -1) {
		if name := span[1]; aFile.MatchString(name) && !slices.ContainsFunc(tree, func(f string) bool { return strings.HasSuffix(f, "/"+name) }) {
			t.Errorf("docs/architecture.md names %s, which no file of the tree ends with", name)
		}
	}
	for _, said := range inOne.FindAllStringSubmatch(doc, -1) {
		var text strings.Builder
		for _, f := range tree {
			if path := "/" + said[2]; strings.HasSuffix(f, path) || strings.HasSuffix(filepath.Dir(f), path) {
				text.WriteString(read(t, filepath.Join(root, f)))
			}
		}
		for _, name := range codeSpans.FindAllStringSubmatch(said[1], -1) {
			last := name[1][strings.LastIndexByte(name[1], '.')+1:]
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(last) + `\b`).MatchString(text.String()) {
				t.Errorf("docs/architecture.md says that %s is in %s, and it is not", name[1], said[2])
			}
		}
	}
}

// goFiles lists the sources and templates of the module, from "/" on.
func goFiles(t *testing.T, root string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, entry.Name()) {
			return filepath.SkipDir
		}
		if slices.Contains([]string{".go", ".proto", ".tpl"}, filepath.Ext(path)) {
			found = append(found, strings.TrimPrefix(path, root))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
