package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// parquetMemory is DuckDB's for one file.
const parquetMemory = "128MB"

// downloads are the formats, with their media types.
var downloads = map[string]string{"json": "application/json", "csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}

// download answers with the newest records of what is asked for as a file.
func (h *handler) download(format string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 3*h.answerTime)
		defer cancel()
		a, err := ask(r.URL, h.Now())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.Filter.Limit, a.Filter.Within = mostRecords, within(ctx)
		done, err := wait(ctx, h.fetching.reader(ctx), h.files)
		if err == nil {
			err = h.send(ctx, w, a.Filter, format)
			done()
		}
		var mend wrong
		if errors.As(err, &mend) { // before anything was sent
			http.Error(w, mend.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			h.Logger.Warn("console: a download ended early", "format", format, "err", err)
			panic(http.ErrAbortHandler) // half a file shall not pass for a whole one
		}
	}
}

func (h *handler) send(ctx context.Context, w http.ResponseWriter, f query.Filter, format string) (err error) {
	head := func() {
		w.Header().Set("Content-Type", downloads[format])
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="sallyport-%s.%s"`, f.Until.UTC().Format("20060102-150405"), format))
	}
	if format == "parquet" {
		dir, failed := os.MkdirTemp("", "sallyport-")
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		file := filepath.Join(dir, "log.parquet")
		if err := h.writeParquet(ctx, f, file); err != nil {
			return err
		}
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer opened.Close()
		head()
		_, err = io.Copy(w, opened)
		return err
	}
	head()
	out := bufio.NewWriter(w)
	writer, err := query.NewWriter(format, out)
	if err != nil {
		return err
	}
	err = query.Each(ctx, h.DB, f, writer.Write)
	return errors.Join(err, writer.Close(), out.Flush())
}

func (h *handler) writeParquet(ctx context.Context, f query.Filter, file string) (err error) {
	done, err := wait(ctx, h.columns)
	if err != nil {
		return err
	}
	defer done()
	w, err := store.NewParquetWriter(ctx, file, parquetMemory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var batch []record.Record
	texts := 0
	err = query.Each(ctx, h.DB, f, func(r record.Record) error {
		if texts += r.Texts(); texts > mostTexts {
			return wrong{errors.New("these records are too long for a file that is made here: choose less time, or let sallyport audit export write it")}
		}
		if batch = append(batch, r); len(batch) < 5_000 {
			return nil
		}
		err := w.Write(ctx, batch)
		batch = batch[:0]
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Write(ctx, batch); err != nil {
		return err
	}
	_, err = w.Finish(ctx)
	return err
}
