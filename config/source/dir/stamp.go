package dir

import "io/fs"

// stamp is what tells a file that was read from one that has changed since, or taken its place. It is kept for each file, and takes a tenth of what an fs.FileInfo does.
type stamp struct {
	size     int64
	modified int64 // in nanoseconds since 1970
	identity
}

func stampOf(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), modified: info.ModTime().UnixNano(), identity: identityOf(info)}
}
