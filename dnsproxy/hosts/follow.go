package hosts

import (
	"context"
	"log/slog"

	"github.com/sallyport/sallyport/dnsproxy/follow"
	"github.com/sallyport/sallyport/dnsproxy/name"
)

// Table takes the names.
type Table interface {
	Apply(upserts []name.Name, removed []string) error
	SetReady()
}

// Follow keeps table as the file says until ctx ends. A file that cannot be read, or not be understood, changes
// nothing and is logged.
func Follow(ctx context.Context, path string, table Table, log *slog.Logger) error {
	before := map[string]bool{}
	return follow.File(ctx, path, func(content []byte) {
		names, err := Parse(path, content)
		if err != nil {
			log.Error("the names file has an error, its last good version stays", "error", err)
			return
		}
		now := map[string]bool{}
		for _, n := range names {
			now[n.Host] = true
			delete(before, n.Host)
		}
		var removed []string
		for host := range before {
			removed = append(removed, host)
		}
		before = now
		if err := table.Apply(names, removed); err != nil {
			log.Error("names refused", "file", path, "error", err)
		}
		table.SetReady()
		log.Info("names loaded", "file", path, "hosts", len(names), "removed", len(removed))
	})
}
