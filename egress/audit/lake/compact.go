package lake

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/durable"
	"github.com/sallyport/sallyport/egress/audit/lake/content"
)

// compactFrom is how many small files of a day become one while the day lasts.
const compactFrom = 8

// compact makes large files of small ones, until there is nothing left to do.
func (w *Writer) compact(ctx context.Context) error {
	for {
		group := choose(w.contents.Files, w.FileBytes, w.Now())
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
		if err := w.Place.Get(ctx, f.Name, file); err != nil {
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
		return err
	}
	step.Add = []content.File{out}
	return nil
}
