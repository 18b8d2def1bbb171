//go:build !unix

package dir

import "io/fs"

// identity is nothing: there a file is known by its size and time.
type identity struct{}

func identityOf(fs.FileInfo) identity { return identity{} }
