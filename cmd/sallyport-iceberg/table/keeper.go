package table

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog/rest"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/cenkalti/backoff/v5"

	"github.com/sallyport/sallyport/egress/audit/lake/content"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

type iceIO = iceio.IO

// Options of a Keeper. Zero fields of the second group take the defaults.
type Options struct {
	Lake    place.Place
	Catalog Catalog
	Table   string // NAMESPACE.NAME

	Location string        // of the table's own files, in the lake; default LAKE/_iceberg/TABLE
	Keep     time.Duration // how long snapshots stay that are not the current one; default 1 d
	Every    time.Duration // how often the lake is looked at; default 5 min
	Most     time.Duration // how long a pass may take; default 30 min
	Logger   *slog.Logger
	Metrics  *Metrics
}

// Keeper keeps a table. One goroutine calls it.
type Keeper struct {
	Options
	columns []content.Column
	known   map[string]iceberg.DataFile // of the snapshot at; nil: not read yet
	at      int64
	during  func(step string) // called between steps, by tests
}

// ErrConflict is of a pass whose commit the catalog refused.
var ErrConflict = errors.New("somebody else has committed meanwhile: the next pass looks again")

// Status is what a pass found and did.
type Status struct {
	Table    string    `json:"table"`
	Lake     string    `json:"lake"`
	Snapshot int64     `json:"snapshot"` // 0: none yet
	Until    time.Time `json:"until"`    // up to when all writers of the lake brought what came in, and the table has it
	Files    int       `json:"files"`
	Records  int64     `json:"records"`
	Bytes    int64     `json:"bytes"`
	Added    int       `json:"added"`   // files, by this pass; of "status", that a pass would add
	Removed  int       `json:"removed"` // files that became part of others
	Left     int       `json:"left"`    // files of before, with numbers that Iceberg has no types for: the table has not their records
	Newer    bool      `json:"newer"`   // there are files with columns that this version of the program does not know
}

// New makes a keeper.
func New(o Options) (*Keeper, error) {
	if err := o.Catalog.Check(); err != nil {
		return nil, err
	}
	parts := strings.Split(o.Table, ".")
	if len(parts) < 2 || slices.Contains(parts, "") {
		return nil, fmt.Errorf("--table %q: write NAMESPACE.NAME", o.Table)
	}
	if o.Location == "" {
		o.Location = o.Lake.URI("_iceberg/" + o.Table)
	}
	if o.Keep == 0 {
		o.Keep = 24 * time.Hour
	}
	if o.Most == 0 {
		o.Most = 30 * time.Minute // one that waits for an answer that does not come would never be told of
	}
	if o.Every == 0 {
		o.Every = 5 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	return &Keeper{Options: o, columns: content.Columns(), during: func(string) {}}, nil
}

func (k *Keeper) ident() table.Identifier { return strings.Split(k.Table, ".") }

// Run makes passes until ctx ends. What fails is tried again for ever, after longer and longer pauses.
func (k *Keeper) Run(ctx context.Context) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.MaxInterval = k.Every
	for ctx.Err() == nil {
		pause := k.Every
		if s, err := k.Pass(ctx); err == nil {
			pauses.Reset()
			if s.Added+s.Removed > 0 {
				k.Logger.Info("the table has what the lake has", "table", k.Table, "snapshot", s.Snapshot, "added", s.Added, "removed", s.Removed, "files", s.Files)
			}
		} else if ctx.Err() == nil {
			pause = min(pauses.NextBackOff(), k.Every)
			k.Logger.Error("the table is behind the lake", "table", k.Table, "err", err, "again in", pause.Round(time.Millisecond).String())
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// Pass makes the table what the lake is.
func (k *Keeper) Pass(ctx context.Context) (*Status, error) {
	limited, cancel := context.WithTimeoutCause(ctx, k.Most, fmt.Errorf("the pass has taken %s, so the catalog or the storage does not answer", k.Most))
	defer cancel()
	s, err := k.pass(limited, true)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", context.Cause(limited), err)
	}
	k.Metrics.told(s, err)
	return s, err
}

// Status says what the next pass would do, and does nothing but to look; where there is no table it fails.
func (k *Keeper) Status(ctx context.Context) (*Status, error) { return k.pass(ctx, false) }

func (k *Keeper) pass(ctx context.Context, write bool) (*Status, error) {
	r, err := k.Catalog.open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// The table comes first: what the lake says then is not older than what somebody else made the table of.
	t, err := k.table(ctx, r, write)
	if err != nil {
		return nil, err
	}
	logs, err := content.ReadAll(ctx, k.Lake)
	if err != nil {
		return nil, fmt.Errorf("the lake %s: %w", k.Lake, err)
	}
	if len(logs) == 0 {
		return nil, fmt.Errorf("nothing was brought to the lake %s yet: is this the --lake of the audit server?", k.Lake)
	}
	k.during("read")
	s, counts := k.count(logs)
	add, remove, err := k.difference(ctx, t, counts)
	if err != nil {
		return nil, err
	}
	s.Added, s.Removed = len(add), len(remove)
	if write && len(add)+len(remove) > 0 {
		if t, err = k.commit(ctx, t, add, remove); err != nil {
			return nil, err
		}
	}
	if write {
		if t, err = k.expire(ctx, t); err != nil {
			return nil, err
		}
	}
	if now := t.CurrentSnapshot(); now != nil {
		s.Snapshot = now.SnapshotID
	}
	return s, nil
}

// table loads the table, and gives it the columns that files have.
func (k *Keeper) table(ctx context.Context, r *rest.Catalog, write bool) (*table.Table, error) {
	if !write {
		if there, err := r.CheckTableExists(ctx, k.ident()); err != nil || !there {
			return nil, k.Catalog.failed("table "+k.Table, errors.Join(errors.New("it is not there: \"sync\" makes it"), err))
		}
	}
	t, err := k.load(ctx, r)
	if err != nil {
		return nil, err
	}
	for range 3 { // columns, their names, and a look that all is well
		tx, changed, err := evolve(t, k.columns)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", k.Table, err)
		}
		if !changed || !write {
			break
		}
		if t, err = tx.Commit(ctx); err != nil {
			return nil, k.Catalog.failed("the columns of table "+k.Table, err)
		}
		k.during("evolved")
	}
	return t, nil
}

// count sums up what counts in the lake, and gives those files that a table can have.
func (k *Keeper) count(logs []*content.Contents) (*Status, map[string]*content.File) {
	s := &Status{Table: k.Table, Lake: k.Lake.String(), Until: logs[0].Until}
	counts := map[string]*content.File{}
	for _, log := range logs {
		if log.Until.Before(s.Until) {
			s.Until = log.Until
		}
		for i := range log.Files {
			f := &log.Files[i]
			if !f.Signed {
				s.Left++
				continue
			}
			s.Newer = s.Newer || f.Schema > schema.Version
			s.Files, s.Records, s.Bytes = s.Files+1, s.Records+f.Records, s.Bytes+f.Bytes
			counts[f.Name] = f
		}
	}
	return s, counts
}

// difference is what has to be done to the table, in the order of names.
func (k *Keeper) difference(ctx context.Context, t *table.Table, counts map[string]*content.File) (add, remove []iceberg.DataFile, err error) {
	if now := t.CurrentSnapshot(); k.known == nil || now == nil || now.SnapshotID != k.at {
		if k.known, err = inTable(t, storage{ctx, k.Lake}); err != nil {
			k.known = nil
			return nil, nil, fmt.Errorf("table %s: %w", k.Table, err)
		}
		if now != nil {
			k.at = now.SnapshotID
		}
	}
	for name, f := range counts {
		if k.known[name] == nil {
			d, err := dataFile(t, k.Lake, f)
			if err != nil {
				return nil, nil, fmt.Errorf("table %s: %w", k.Table, err)
			}
			add = append(add, d)
		}
	}
	for name, d := range k.known {
		if counts[name] == nil {
			remove = append(remove, d)
		}
	}
	byPath := func(a, b iceberg.DataFile) int { return strings.Compare(a.FilePath(), b.FilePath()) }
	slices.SortFunc(add, byPath)
	slices.SortFunc(remove, byPath)
	return add, remove, nil
}

// commit makes a snapshot, if the table's is still the one that was read.
func (k *Keeper) commit(ctx context.Context, t *table.Table, add, remove []iceberg.DataFile) (*table.Table, error) {
	known := k.known
	k.known = nil // until it is known how it ended
	tx := t.NewTransaction()
	err := tx.AssertRefSnapshotID(table.MainBranch)
	if err == nil {
		err = tx.ReplaceDataFilesWithDataFiles(ctx, remove, add, nil, table.WithoutDuplicateCheck())
	}
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", k.Table, err)
	}
	k.during("written")
	next, err := tx.Commit(ctx)
	if err != nil {
		if errors.Is(err, table.ErrCommitFailed) {
			k.Metrics.conflicts.Inc()
			return nil, fmt.Errorf("table %s: %w: %w", k.Table, ErrConflict, err)
		}
		return nil, k.Catalog.failed("table "+k.Table, err)
	}
	k.during("committed")
	k.Metrics.did(len(add), len(remove))
	s := storage{ctx, k.Lake}
	for _, d := range remove {
		if name, err := s.name(d.FilePath()); err == nil {
			delete(known, name)
		}
	}
	for _, d := range add {
		name, err := s.name(d.FilePath())
		if err != nil {
			return nil, err
		}
		known[name] = d
	}
	k.known, k.at = known, next.CurrentSnapshot().SnapshotID
	return next, nil
}

// expire removes snapshots that are older than they are kept. The lake's writers remove files of data, at their own time.
func (k *Keeper) expire(ctx context.Context, t *table.Table) (*table.Table, error) {
	current := t.CurrentSnapshot()
	if current == nil {
		return t, nil
	}
	old := false
	for _, s := range t.Metadata().Snapshots() {
		old = old || time.Since(time.UnixMilli(s.TimestampMs)) > k.Keep && s.SnapshotID != current.SnapshotID
	}
	if !old {
		return t, nil
	}
	tx := t.NewTransaction()
	if err := tx.ExpireSnapshots(table.WithOlderThan(k.Keep), table.WithRetainLast(1)); err != nil {
		return nil, fmt.Errorf("table %s: %w", k.Table, err)
	}
	next, err := tx.Commit(ctx)
	if err != nil {
		return nil, k.Catalog.failed("old snapshots of table "+k.Table, err)
	}
	k.during("expired")
	return next, nil
}
