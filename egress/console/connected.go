package console

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// connected is how many proxies are connected to controllers.
type connected struct {
	Known  bool   // some controller says so
	All    uint64 // of namespaces that the reader may read
	Silent uint64 // of these, those of which the log has nothing
}

// connected counts them. A proxy of which there is no record may have nothing to record: what is to be found in that a detection says.
func (h *handler) connected(ctx context.Context) (c connected, err error) {
	if h.Connected == nil {
		return c, nil
	}
	proxies, known := h.Connected()
	who, silent := readerOf(ctx), map[string]bool{}
	for _, p := range proxies {
		if who.All || slices.Contains(who.Namespaces, p.Namespace()) {
			silent[p.ID] = true
		}
	}
	c.Known, c.All = known, uint64(len(silent))
	if len(silent) == 0 {
		return c, nil
	}
	// They are read of all namespaces, and shown is the number of the reader's own.
	rows, err := h.DB.QueryContext(ctx, "SELECT proxy FROM "+store.Reporters) //nolint:gosec // G202: names of tables are ours
	if err != nil {
		return c, fmt.Errorf("console: %w", err)
	}
	err = each(rows, func(rows *sql.Rows) error {
		var id sql.NullString
		err := rows.Scan(&id)
		delete(silent, id.String)
		return err
	})
	c.Silent = uint64(len(silent))
	return c, err
}
