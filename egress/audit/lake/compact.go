package lake

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/durable"
	"github.com/sallyport/sallyport/egress/audit/lake/content"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
	"github.com/sallyport/sallyport/egress/audit/query"
)

// compactFrom is how many small files of a day become one while the day lasts.
const compactFrom = 8

// compact makes large files of small ones, until there is nothing left to do.
func (w *Writer) compact(ctx context.Context) error {
	for {
		group := choose(w.whole(), w.FileBytes, w.Now())
		if group == nil {
			return nil
		}
		p := &plan{Number: w.contents.Number + 1, Time: w.Now().UTC(), Until: w.contents.Until, Inputs: group}
		if err := w.begin(ctx, p); err != nil {
			return err
		}
	}
}

// choose finds files of one day, schema and kind of numbers that shall become one: the smallest ones, as many as fit. While the day lasts it waits for
// compactFrom of them, later for as many as make the largest of them worth being read again. Nil: there are none.
func choose(files []content.File, size int64, now time.Time) (group []content.File) {
	byDay := map[string][]content.File{}
	var keys []string
	for _, f := range files {
		if f.Bytes >= size/2 {
			continue
		}
		key := fmt.Sprint(f.Partition(), " ", f.Schema, " ", f.Signed)
		if byDay[key] == nil {
			keys = append(keys, key)
		}
		byDay[key] = append(byDay[key], f)
	}
	slices.Sort(keys)
	for _, key := range keys {
		small := byDay[key]
		slices.SortFunc(small, func(a, b content.File) int {
			if a.Bytes != b.Bytes {
				return int(a.Bytes - b.Bytes)
			}
			return strings.Compare(a.Name, b.Name)
		})
		total, n := int64(0), 0
		for n < len(small) && total+small[n].Bytes <= size {
			total += small[n].Bytes
			n++
		}
		over := false
		if day, err := time.Parse(time.DateOnly, strings.TrimPrefix(filepath.Base(small[0].Partition()), "day=")); err == nil {
			over = now.After(day.Add(26 * time.Hour))
		}
		if n >= compactFrom || over && n >= 2 && total >= 2*small[n-1].Bytes {
			return small[:n]
		}
	}
	return nil
}

// unreadable is the error of a file of the lake that is not there, or not as it was written.
type unreadable struct{ error }

// mark remembers that a file cannot be read, until the next start.
func (w *Writer) mark(f *content.File, err error) error {
	if w.broken == nil {
		w.broken = map[string]error{}
	}
	w.broken[f.Name] = err
	return unreadable{err}
}

// whole are the files of the lake but for those that cannot be read.
func (w *Writer) whole() []content.File {
	if len(w.broken) == 0 {
		return w.contents.Files
	}
	return slices.DeleteFunc(slices.Clone(w.contents.Files), func(f content.File) bool { return w.broken[f.Name] != nil })
}

// harmed says which files of the lake cannot be read.
func (w *Writer) harmed() error {
	var all []error
	for i := range w.contents.Files {
		if err := w.broken[w.contents.Files[i].Name]; err != nil && len(all) < 10 {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// fetch copies a file of the lake, if it is as it was written.
func (w *Writer) fetch(ctx context.Context, f *content.File, file string) error {
	err := w.Place.Get(ctx, f.Name, file)
	if errors.Is(err, place.ErrGone) {
		return w.mark(f, lost(f))
	}
	if err != nil {
		return err
	}
	if err := isWhole(f, file); err != nil {
		return w.mark(f, err)
	}
	return nil
}

// readable looks for the file that cannot be read, after one of them could not be made of all.
func (w *Writer) readable(ctx context.Context, p *plan, local []string, err error) error {
	for i, file := range local {
		var rows int64
		e := w.Store.DB().QueryRowContext(ctx, "SELECT count(*) FROM (SELECT max(hash(f)) FROM read_parquet("+query.Literal(file)+") AS f)").Scan(&rows)
		if e != nil && ctx.Err() == nil {
			return w.mark(&p.Inputs[i], fmt.Errorf("%s, with %d records, cannot be read: %w", p.Inputs[i].Name, p.Inputs[i].Records, e))
		}
	}
	return err
}

// merge makes one file of a plan's.
func (w *Writer) merge(ctx context.Context, p *plan, step *content.Commit) error {
	out := content.File{Name: p.name(w.state.Writer, p.Inputs[0].Partition()), Schema: p.Inputs[0].Schema, Signed: p.Inputs[0].Signed, First: p.Inputs[0].First}
	var local []string
	defer func() {
		for _, file := range local {
			_ = durable.Remove(file)
		}
	}()
	for i, f := range p.Inputs {
		file := filepath.Join(w.Scratch, fmt.Sprintf("in-%d.parquet", i))
		local = append(local, file)
		if err := w.fetch(ctx, &f, file); err != nil {
			return err
		}
		out.Records += f.Records
		if f.First.Before(out.First) {
			out.First = f.First
		}
		if f.Last.After(out.Last) {
			out.Last = f.Last
		}
		step.Remove = append(step.Remove, f.Name)
	}
	if err := w.write(ctx, merged(local), &out); err != nil {
		return w.readable(ctx, p, local, err)
	}
	step.Add = []content.File{out}
	return nil
}
