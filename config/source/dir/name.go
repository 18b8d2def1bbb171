package dir

import (
	"path/filepath"
	"slices"
	"strings"
)

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
