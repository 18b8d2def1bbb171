package lake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/duck"
	"github.com/sallyport/sallyport/egress/audit/durable"
	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/lake/content"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/scratch"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// ReadOptions of a lake's reader. Zero fields take the defaults.
type ReadOptions struct {
	// Cache is a folder for files of a bucket: DuckDB reads local files only. It has CacheBytes at most, default 16 GiB, and is for this
	// user alone.
	Cache      string
	CacheBytes int64
	// Since and Until bound by the records' time what SQL sees.
	Since, Until time.Time
}

// reader is a query.Source over the files of a lake, those that its logs name when a question is asked.
type reader struct {
	place   place.Place
	options ReadOptions
	scratch *scratch.Folder // for what does not fit into memory
}

// Open reads a lake. What there is to read is looked for with each question.
func Open(at place.Place, o ReadOptions) (query.Source, error) {
	o.CacheBytes = cmp.Or(o.CacheBytes, 16<<30)
	if _, local := place.Dir(at); !local {
		if o.Cache == "" {
			return nil, errors.New("audit lake: a bucket cannot be read without a folder for its files")
		}
		id := sha256.Sum256([]byte(at.String()))
		o.Cache = filepath.Join(o.Cache, hex.EncodeToString(id[:8]))
		if err := os.MkdirAll(o.Cache, 0o700); err != nil {
			return nil, fmt.Errorf("audit lake: %w", err)
		}
	}
	folder, err := scratch.New()
	if err != nil {
		return nil, fmt.Errorf("audit lake: %w", err)
	}
	return &reader{at, o, folder}, nil
}

func (r *reader) Close() error { return r.scratch.Close() }

func (r *reader) Select(ctx context.Context, filter query.Filter, f func(record.Record) error) error {
	return r.ask(ctx, 2, within(filter.Since, filter.Until), func(db *sql.DB, began func()) error {
		return query.Each(ctx, db, filter, func(x record.Record) error {
			began()
			return f(x)
		})
	})
}

func (r *reader) Inputs(ctx context.Context, filter query.Filter, f func(*inputs.Input) error) error {
	return r.ask(ctx, 2, ofDays(filter.Since, filter.Until), func(db *sql.DB, began func()) error {
		return query.Inputs(ctx, db, filter, func(x *inputs.Input) error {
			began()
			return f(x)
		})
	})
}

func (r *reader) SQL(ctx context.Context, statement string, sink query.RowSink) error {
	return r.ask(ctx, query.StatementThreads, within(r.options.Since, r.options.Until), func(db *sql.DB, began func()) error {
		return query.SQL(ctx, db, statement, noticed{sink, began})
	})
}

func (r *reader) Tail(context.Context, query.Filter, func(record.Record) error) error {
	return errors.New("audit tail: nothing comes into a lake as it happens; ask the audit server")
}

// noticed calls began when a result begins.
type noticed struct {
	query.RowSink
	began func()
}

func (n noticed) Columns(names []string) error {
	n.began()
	return n.RowSink.Columns(names)
}

// within chooses files by their records' times.
func within(since, until time.Time) func(*content.File) bool {
	return func(f *content.File) bool { return !f.Last.Before(since) && (until.IsZero() || f.First.Before(until)) }
}

// ofDays chooses files by the days that their records count for.
func ofDays(since, until time.Time) func(*content.File) bool {
	return func(f *content.File) bool {
		day := strings.TrimPrefix(filepath.Base(f.Partition()), "day=")
		return (since.IsZero() || day >= since.UTC().Format(time.DateOnly)) && (until.IsZero() || day <= until.UTC().Format(time.DateOnly))
	}
}

// ask runs a question over the files that a condition chooses, with so many threads of DuckDB's. Files go when they are compacted: if that is why nothing was answered, it is
// asked again.
func (r *reader) ask(ctx context.Context, threads int, wanted func(*content.File) bool, question func(db *sql.DB, began func()) error) error {
	var err error
	for range 3 {
		began := false
		var chosen []content.File
		if chosen, err = r.choose(ctx, wanted); err != nil {
			return err
		}
		if err = r.over(ctx, threads, chosen, func(db *sql.DB) error { return question(db, func() { began = true }) }); err == nil || began {
			return err
		}
		now, e := r.choose(ctx, wanted)
		if e != nil || slices.Equal(now, chosen) {
			return err
		}
	}
	return err
}

func (r *reader) choose(ctx context.Context, wanted func(*content.File) bool) (chosen []content.File, err error) {
	logs, err := content.ReadAll(ctx, r.place)
	if err != nil {
		return nil, fmt.Errorf("audit lake: %w", err)
	}
	if len(logs) == 0 {
		return nil, fmt.Errorf("audit lake: nothing was brought to %s yet: there is no %s", r.place, strings.TrimSuffix(content.Folder, "/"))
	}
	for _, c := range logs {
		for i := range c.Files {
			if wanted(&c.Files[i]) {
				chosen = append(chosen, c.Files[i])
			}
		}
	}
	return chosen, nil
}

// over gives a database whose table of records is what is in files.
func (r *reader) over(ctx context.Context, threads int, files []content.File, f func(*sql.DB) error) (err error) {
	local, err := r.local(ctx, files)
	if err != nil {
		return fmt.Errorf("audit lake: %w", err)
	}
	db, err := r.database(threads, local)
	if err != nil {
		return fmt.Errorf("audit lake: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return f(db)
}

// local gives paths of files, by the versions of their schemas.
func (r *reader) local(ctx context.Context, files []content.File) (map[int][]string, error) {
	byVersion := map[int][]string{}
	if dir, is := place.Dir(r.place); is {
		for i := range files {
			file := filepath.Join(dir, filepath.FromSlash(files[i].Name))
			if err := isWhole(&files[i], file); err != nil {
				return nil, err
			}
			byVersion[files[i].Schema] = append(byVersion[files[i].Schema], file)
		}
		return byVersion, nil
	}
	var total int64
	names := map[string]bool{}
	for i := range files {
		total += files[i].Bytes
		names[cached(&files[i])] = true
	}
	if total > r.options.CacheBytes {
		return nil, fmt.Errorf("the question is about %d MiB of files, and the cache %s may have %d MiB: ask for less time", total>>20, r.options.Cache, r.options.CacheBytes>>20)
	}
	if err := r.evict(names, r.options.CacheBytes-total); err != nil {
		return nil, err
	}
	for i := range files {
		file := filepath.Join(r.options.Cache, cached(&files[i]))
		if err := r.fetch(ctx, &files[i], file); err != nil {
			return nil, err
		}
		byVersion[files[i].Schema] = append(byVersion[files[i].Schema], file)
	}
	return byVersion, nil
}

// cached is a file's name in the cache: files are never changed, and have the number of a step in their names.
func cached(f *content.File) string { return strings.ReplaceAll(f.Name, "/", ",") }

// partPrefix is what the names of files begin with that are not whole.
const partPrefix = ".part-"

func (r *reader) fetch(ctx context.Context, f *content.File, file string) error {
	if info, err := os.Stat(file); err == nil && info.Size() == f.Bytes {
		now := time.Now()
		return os.Chtimes(file, now, now)
	}
	part, err := os.CreateTemp(r.options.Cache, partPrefix)
	if err != nil {
		return err
	}
	_ = part.Close() // nothing was written
	defer os.Remove(part.Name())
	if err := r.place.Get(ctx, f.Name, part.Name()); errors.Is(err, place.ErrGone) {
		return lost(f)
	} else if err != nil {
		return err
	}
	if err := isWhole(f, part.Name()); err != nil {
		return err
	}
	return os.Rename(part.Name(), file)
}

// isWhole says what is wrong with a file that is not as the lake's log has it.
func isWhole(f *content.File, file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lost(f)
	case err != nil:
		return fmt.Errorf("%s: %w", f.Name, err)
	case info.Size() != f.Bytes:
		return fmt.Errorf("%s has %d bytes, and had %d when it was written: somebody changed it, and its %d records cannot be read", f.Name, info.Size(), f.Bytes, f.Records)
	}
	return nil
}

func lost(f *content.File) error {
	return fmt.Errorf("%s is not there, and %d records with it: somebody removed it", f.Name, f.Records)
}

// partRest is for how long nothing has come to a file of one who was killed while it came.
const partRest = time.Hour

// evict leaves so many bytes of files that are not wanted, those that were used last, and nothing of what never came.
func (r *reader) evict(wanted map[string]bool, most int64) error {
	entries, err := os.ReadDir(r.options.Cache)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil || wanted[e.Name()]:
		case !strings.HasPrefix(e.Name(), "."):
			files = append(files, info)
		case strings.HasPrefix(e.Name(), partPrefix) && time.Since(info.ModTime()) > partRest:
			if err := durable.Remove(filepath.Join(r.options.Cache, e.Name())); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, info := range files {
		if most -= info.Size(); most < 0 {
			if err := durable.Remove(filepath.Join(r.options.Cache, info.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// database has the view of records, and reads those files and nothing else.
func (r *reader) database(threads int, files map[int][]string) (*sql.DB, error) {
	var paths []string
	for _, list := range files {
		for _, file := range list {
			paths = append(paths, query.Literal(file))
		}
	}
	settings := url.Values{
		"memory_limit": {"512MB"}, "threads": {strconv.Itoa(threads)}, "temp_directory": {r.scratch.Path},
		"autoinstall_known_extensions": {"false"}, "autoload_known_extensions": {"false"}, "allow_community_extensions": {"false"},
	}
	return duck.Open("", settings, "SET GLOBAL TimeZone = 'UTC'", "SET allowed_paths = ["+strings.Join(paths, ", ")+"]",
		"SET enable_external_access = false", "CREATE VIEW "+store.Table+" AS "+records(files), "SET lock_configuration = true")
}
