package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/e2e/story"
)

// eachFile reads the project's files of Go that are meant, by their paths from its root, with slashes.
func eachFile(t *testing.T, meant func(path string) bool, f func(*token.FileSet, *ast.File)) {
	t.Helper()
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		at, err := filepath.Rel(root, path)
		if err != nil || !meant(filepath.ToSlash(at)) {
			return err
		}
		read++
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err == nil {
			f(files, file)
		}
		return err
	})
	if err != nil || read == 0 {
		t.Fatalf("%d files, %v", read, err)
	}
}

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

// within says whether a path is in a folder, or below it.
func within(path, folder string) bool { return strings.HasPrefix(path, folder+"/") }
