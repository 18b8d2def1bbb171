package dir

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
)

// List returns the paths of the files that a Source on that directory would read, sorted.
func List(root string) ([]string, error) {
	root = filepath.Clean(root)
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory", root)
	}
	t := newTree(root, nil, slog.New(slog.DiscardHandler))
	var paths []string
	for _, c := range t.scan(root, info) {
		paths = append(paths, c.path)
	}
	if findings := t.store.notes.All(); len(findings) > 0 {
		return nil, fmt.Errorf("%s: %s: %s", root, findings[0].Origin, findings[0].Message)
	}
	slices.Sort(paths)
	return paths, nil
}
