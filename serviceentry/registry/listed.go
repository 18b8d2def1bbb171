package registry

import (
	"maps"
	"slices"

	"github.com/sallyport/sallyport/config"
)

// afterChange gives the objects of a kind by their namespaces, each list in order, after a change of one of them. Maps and lists that
// were there stay as they are.
func afterChange[L ~[]P, P any](all map[string]L, c config.Change, read func(*config.Object) P, keyOf func(P) config.Key, compare func(x, y P) int) map[string]L {
	ns := c.Key.Namespace
	list := slices.DeleteFunc(slices.Clone(all[ns]), func(p P) bool { return keyOf(p) == c.Key })
	if c.Object != nil {
		list = append(list, read(c.Object))
	}
	slices.SortFunc(list, compare)
	all = maps.Clone(all)
	if all[ns] = list; len(list) == 0 {
		delete(all, ns)
	}
	return all
}
