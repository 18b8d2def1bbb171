package dir

import (
	"slices"

	"github.com/sallyport/sallyport/serviceentry"
)

// contents are a file's objects, by key. Most files hold one: a slice is a fraction of a map's size.
type contents []*serviceentry.Object

func contentsOf(objects map[serviceentry.Key]*serviceentry.Object) contents {
	c := make(contents, 0, len(objects))
	for _, o := range objects {
		c = append(c, o)
	}
	slices.SortFunc(c, func(a, b *serviceentry.Object) int { return a.Key.Compare(b.Key) })
	return c
}

// find gives the object with that key, nil when there is none.
func (c contents) find(key serviceentry.Key) *serviceentry.Object {
	i, found := slices.BinarySearchFunc(c, key, func(o *serviceentry.Object, k serviceentry.Key) int { return o.Key.Compare(k) })
	if !found {
		return nil
	}
	return c[i]
}
