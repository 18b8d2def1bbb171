package dir

import (
	"io/fs"
	"slices"

	"github.com/sallyport/sallyport/config"
)

// contents are a file's objects, by key. Most files hold one: a slice is a fraction of a map's size.
type contents []*config.Object

func contentsOf(objects map[config.Key]*config.Object) contents {
	c := make(contents, 0, len(objects))
	for _, o := range objects {
		c = append(c, o)
	}
	slices.SortFunc(c, func(a, b *config.Object) int { return a.Key.Compare(b.Key) })
	return c
}

// find gives the object with that key, nil when there is none.
func (c contents) find(key config.Key) *config.Object {
	i, found := slices.BinarySearchFunc(c, key, func(o *config.Object, k config.Key) int { return o.Key.Compare(k) })
	if !found {
		return nil
	}
	return c[i]
}

// stamp is what tells a file that was read from one that has changed since, or taken its place. It is kept for each file, and takes a tenth of what an fs.FileInfo does.
type stamp struct {
	size     int64
	modified int64 // in nanoseconds since 1970
	identity
}

func stampOf(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), modified: info.ModTime().UnixNano(), identity: identityOf(info)}
}
