package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/e2e/story"
)

// variable is what the Makefile sets a variable to.
func variable(t *testing.T, name string) string {
	t.Helper()
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	makefile := regexp.MustCompile(`\\\n *`).ReplaceAllString(read(t, filepath.Join(root, "Makefile")), "")
	line := regexp.MustCompile(`(?m)^` + name + ` *:= (.+)$`).FindStringSubmatch(makefile)
	if line == nil {
		t.Fatalf("the Makefile does not say %s", name)
	}
	return line[1]
}

// What `make test` tries without the race detector starts no goroutine: whoever calls it from several is tried with it.
func TestPurePackagesStartNothing(t *testing.T) {
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range strings.Fields(variable(t, "PURE")) {
		folder, below := strings.CutSuffix(pattern, "/...")
		if !below {
			t.Fatalf("%s is no folder with all below it", pattern)
		}
		read := 0
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(folder)), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			read++
			for _, at := range starts(t, path) {
				t.Errorf("%s starts a goroutine: take its package out of PURE in the Makefile, or leave that to the caller", at)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if read == 0 {
			t.Errorf("%s holds no Go files", folder)
		}
	}
}

// Of packages that are tried alone, without the race detector, the tests start no goroutine either, and nothing that starts some.
func TestPackagesTriedAloneStartNothing(t *testing.T) {
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	starting := []string{`"net/http/httptest"`, `"testing/synctest"`, `"go.uber.org/goleak"`, `"os/exec"`, `"github.com/sallyport/sallyport/e2e/cluster/apiserver"`}
	for _, folder := range strings.Fields(variable(t, "ALONE")) {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s holds no Go files: %v", folder, err)
		}
		for _, path := range files {
			for _, at := range starts(t, path) {
				t.Errorf("%s starts a goroutine: take its package out of ALONE in the Makefile", at)
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range file.Imports {
				if slices.Contains(starting, i.Path.Value) {
					t.Errorf("%s imports %s: take its package out of ALONE in the Makefile", path, i.Path.Value)
				}
			}
		}
	}
}

// What is tried in another way than its package is, is named in the Makefile: tests that try less with the race detector are tried without it too, as in
// PURE all are; and of PURE, which has the processors only where nobody else wants them, those that ask a running Envoy are tried where others wait.
func TestTheMakefileNamesWhatIsTriedOtherwise(t *testing.T) {
	holdNames(t, "RANDOM", false, func(file *ast.File) []string {
		var names []string
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && (refers(f, "registrytest", "Times") || refers(f, "registrytest", "Raced")) {
				names = append(names, f.Name.Name)
			}
		}
		return names
	})
	holdNames(t, "ASKING", true, func(file *ast.File) []string {
		if !refers(file, "envoytest", "Start") {
			return nil
		}
		var names []string
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
		return names
	})
}

// holdNames compares what is found in tests of packages that are PURE, or are not, with a variable that names tests, and one that names their packages.
func holdNames(t *testing.T, name string, pure bool, find func(*ast.File) []string) {
	t.Helper()
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	patterns := strings.Fields(strings.NewReplacer("./", "", "/...", "/").Replace(variable(t, "PURE")))
	var tests, folders []string
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil || pure != slices.ContainsFunc(patterns, func(p string) bool { return strings.HasPrefix(folder+"/", p) }) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, test := range find(file) {
			tests, folders = append(tests, test), append(folders, "./"+filepath.ToSlash(folder))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(tests)
	slices.Sort(folders)
	if found := strings.Join(tests, "|"); found != variable(t, name) {
		t.Errorf("found are %s, and the Makefile's %s says %s", found, name, variable(t, name))
	}
	if found := strings.Join(slices.Compact(folders), " "); found != variable(t, name+"_IN") {
		t.Errorf("they are in %s, and the Makefile's %s_IN says %s", found, name, variable(t, name+"_IN"))
	}
}

// refers: the code says PACKAGE.NAME somewhere.
func refers(code ast.Node, pkg, name string) (found bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		if s, is := n.(*ast.SelectorExpr); is {
			x, named := s.X.(*ast.Ident)
			found = found || named && x.Name == pkg && s.Sel.Name == name
		}
		return !found
	})
	return found
}

// starts says where a file starts goroutines: by a go statement, or by the Go of a group (sync.WaitGroup, errgroup.Group).
func starts(t *testing.T, path string) (found []token.Position) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, files.Position(n.Pos()))
		case *ast.SelectorExpr:
			if n.Sel.Name == "Go" {
				found = append(found, files.Position(n.Pos()))
			}
		}
		return true
	})
	return found
}
