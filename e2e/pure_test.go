package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/e2e/story"
)

// What `make test` tries without the race detector starts no goroutine: whoever calls it from several is tried with it.
func TestPurePackagesStartNothing(t *testing.T) {
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^PURE +:= (.+)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile does not say which packages are PURE")
	}
	for _, pattern := range strings.Fields(string(line[1])) {
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
