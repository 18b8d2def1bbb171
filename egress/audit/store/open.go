package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/duck"
)

// FileName is the database's name in its folder.
const FileName = "audit.duckdb"

// Options bounds a store. Zero fields take the defaults.
type Options struct {
	MemoryLimit string        // of DuckDB, in its notation; default "512MB". Larger sorts spill beside the file
	Retention   time.Duration // records older than this are deleted, hourly; default: kept for ever
	// Held are names of those who bring records elsewhere: none goes by its age before all of them let it (Release), or heldAtMost later.
	Held []string
	// Scratch is a folder in which SQL may read and write files, and nowhere else; "": none. Only what was copied from the records may be there.
	Scratch string
	Logger  *slog.Logger
	Now     func() time.Time
}

// usualThreads has DuckDB work in the threads of those who ask and write, and in none of its own. While one of its own does what they wait for, they ask again and again
// whether it is done: a third of all processor time that a record took, on a busy machine. Several who ask still work at a time. And what a statement in SQL may
// take is bounded on the thread that asks (duck.Bounded).
const usualThreads = "1"

func (o Options) withDefaults() Options {
	if o.MemoryLimit == "" {
		o.MemoryLimit = "512MB"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// readers bounds the connections of readers.
const readers = 8

// checkpointAfter is how long the log of what was committed may become before DuckDB writes it into the tables; its own default is 16 MB.
// Each time the last group of rows (122,880) is written again, so that it halves what a record costs. A store that was killed reads
// that log when it is opened.
const checkpointAfter = "64MB"

// How a new file is written; one that is there stays as it was made. Blocks are a quarter of DuckDB's usual ones: a column of a group of rows
// begins a block mostly, and leaves the rest of its last one empty. In yet smaller ones dictionaries of texts have no room. storageVersion has
// dictionaries whose texts are compressed.
const (
	blockSize      = "65536"
	storageVersion = "v1.5.0"
)

// settings are those that the database is opened with.
func (o Options) settings(readOnly bool) url.Values {
	out := url.Values{
		"memory_limit":                  {o.MemoryLimit},
		"threads":                       {usualThreads},
		"checkpoint_threshold":          {checkpointAfter},
		"max_temp_directory_size":       {"4GB"},
		"default_block_size":            {blockSize},
		"storage_compatibility_version": {storageVersion},
		"autoinstall_known_extensions":  {"false"},
		"autoload_known_extensions":     {"false"},
		"allow_community_extensions":    {"false"},
	}
	if readOnly {
		out.Set("access_mode", "read_only")
	}
	return out
}

// connect opens the database file, which is named by its whole path. Extensions are neither installed nor loaded, SQL cannot read or write files, and
// no setting can be changed afterwards.
func connect(ctx context.Context, file string, readOnly bool, o Options) (*sql.DB, error) {
	if strings.ContainsAny(file, "?%#") {
		return nil, fmt.Errorf("audit store: the path %q holds one of ? %% #, which DuckDB's driver cannot take", file)
	}
	scratch := "SET allowed_directories = []"
	if o.Scratch != "" {
		scratch = "SET allowed_directories = ['" + strings.ReplaceAll(o.Scratch, "'", "''") + "/']"
	}
	db, err := duck.Open(file, o.settings(readOnly), "SET GLOBAL TimeZone = 'UTC'", scratch, "SET enable_external_access = false", "SET lock_configuration = true")
	if err != nil {
		return nil, fmt.Errorf("audit store: open %s: %w", file, err)
	}
	db.SetMaxOpenConns(readers + 2) // the writer's, and the gatherer's
	db.SetMaxIdleConns(2)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("audit store: open %s: %w", file, err), db.Close())
	}
	return db, nil
}

// Open opens the store in a folder (made when missing, mode 0700) for writing. Only one process can have it open.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit store: %w", err)
	}
	file, err := filepath.Abs(filepath.Join(dir, FileName))
	if err != nil {
		return nil, err
	}
	db, err := connect(ctx, file, false, o)
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, file, db, o)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// OpenReadOnly opens the store in a folder for reading, while no process writes it. A folder of an older version is brought to
// this one's first, which needs the right to write it.
func OpenReadOnly(ctx context.Context, dir string, o Options) (*sql.DB, error) {
	o = o.withDefaults()
	file, err := filepath.Abs(filepath.Join(dir, FileName))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("audit store: there is no audit log in %s yet: %w", dir, err)
	}
	db, err := connect(ctx, file, true, o)
	if err != nil {
		return nil, err
	}
	version, err := versionOf(ctx, db)
	if err == nil && version == folderVersion {
		return db, nil
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	if err := migrateFile(ctx, file, o); err != nil {
		return nil, err
	}
	return connect(ctx, file, true, o)
}

// migrateFile brings a folder that no process has open to this version's schema.
func migrateFile(ctx context.Context, file string, o Options) error {
	db, err := connect(ctx, file, false, o)
	if err != nil {
		return fmt.Errorf("%w; an older version wrote the folder, and it has to be brought to this one's schema once: run this as its owner, or start the audit server", err)
	}
	return errors.Join(migrate(ctx, db, o.Now().UTC()), db.Close())
}
