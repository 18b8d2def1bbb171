package lake

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
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

// choose finds files of one day and schema that shall become one: the smallest ones, as many as fit. While the day lasts it waits for
// compactFrom of them, later for as many as make the largest of them worth being read again. Nil: there are none.
func choose(files []File, size int64, now time.Time) (group []File) {
	byDay := map[string][]File{}
	var keys []string
	for _, f := range files {
		if f.Bytes >= size/2 {
			continue
		}
		key := fmt.Sprint(f.partition(), " ", f.Schema)
		if byDay[key] == nil {
			keys = append(keys, key)
		}
		byDay[key] = append(byDay[key], f)
	}
	slices.Sort(keys)
	for _, key := range keys {
		small := byDay[key]
		slices.SortFunc(small, func(a, b File) int {
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
		if day, err := time.Parse(time.DateOnly, strings.TrimPrefix(filepath.Base(small[0].partition()), "day=")); err == nil {
			over = now.After(day.Add(26 * time.Hour))
		}
		if n >= compactFrom || over && n >= 2 && total >= 2*small[n-1].Bytes {
			return small[:n]
		}
	}
	return nil
}

// merge makes one file of a plan's.
func (w *Writer) merge(ctx context.Context, p *plan, step *Commit) error {
	out := File{Name: p.name(w.state.Writer, p.Inputs[0].partition()), Schema: p.Inputs[0].Schema, First: p.Inputs[0].First}
	var local []string
	defer func() {
		for _, file := range local {
			_ = remove(file)
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
	step.Add = []File{out}
	return nil
}
