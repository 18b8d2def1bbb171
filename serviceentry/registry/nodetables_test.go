package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
)

// exportedByName is an entry that is exported to namespaces n00, n01, … by name.
func exportedByName(key string, namespaces int) string {
	names := make([]string, namespaces)
	for i := range names {
		names[i] = fmt.Sprintf("n%02d", i)
	}
	return entryYAML(key, strings.ReplaceAll(key, "/", ".")+".test", "exportTo: ["+strings.Join(names, ", ")+"]")
}

// TestTablesAtNodes: what others export by name gives tables to so many namespaces, each exporter for itself; what is a namespace's own, or the root namespace's, always does.
func TestTablesAtNodes(t *testing.T) {
	most := mesh.Default().ExportedTables
	tables := func(w world) (out []string) {
		for i := range 20 {
			if ns := fmt.Sprintf("n%02d", i); w.Snapshot().TablesAtNodes(ns) {
				out = append(out, ns)
			}
		}
		return out
	}
	w := newWorld(t, exportedByName("b/one", 20))
	if got := tables(w); len(got) != most || got[0] != "n00" {
		t.Errorf("one neighbour's export gives tables to %v, want the first %d", got, most)
	}
	if got := w.Snapshot().WithoutTables("b", []string{"b", "n00", "n19", "other"}); len(got) != 1 || got[0] != "n19" {
		t.Errorf("without tables are said to be %v", got)
	}
	w.apply(exportedByName("b/two", 20)) // the same neighbour's are no more
	if got := tables(w); len(got) != most {
		t.Errorf("its second gives them to %v", got)
	}
	own := entryYAML("n15/own", "own.test", "exportTo: ['.']")
	w.apply(own)
	if got := tables(w); len(got) != most+1 || got[most] != "n15" {
		t.Errorf("with something of n15's own: %v", got)
	}
	w.apply(exportedByName("istio-system/all", 20))
	if got := tables(w); len(got) != 20 {
		t.Errorf("with the root namespace's export: %v", got)
	}
	w.remove(exportedByName("istio-system/all", 20))
	w.remove(own)
	w.remove(exportedByName("b/one", 20))
	if got := tables(w); len(got) != most {
		t.Errorf("with its second alone: %v", got)
	}
	w.remove(exportedByName("b/two", 20))
	if got := tables(w); len(got) > 0 {
		t.Errorf("without any: %v", got)
	}
}
