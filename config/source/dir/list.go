package dir

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// isConfig says whether a file of that name is read: *.yaml, *.yml and *.json, but no hidden files and none that
// editors keep beside the one being edited (.x.yaml.swp, x.yaml~, #x.yaml#, 4913).
func isConfig(name string) bool {
	return !hidden(name) && !strings.HasPrefix(name, "#") &&
		slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// swapped says whether name belongs to how Kubernetes replaces the files of a mounted ConfigMap at once: they are
// links into "..data", itself a link that is renamed.
func swapped(name string) bool { return strings.HasPrefix(name, "..") }
