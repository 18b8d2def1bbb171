package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/scratch"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// parquetMemory is DuckDB's for one file.
const parquetMemory = "128MB"

// downloads are the formats, with their media types.
var downloads = map[string]string{"json": "application/json", "csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}

// download answers with the newest records of what is asked for as a file. It is whole before the first byte of it is sent, and its length is said: what ends early is
// seen to, also behind a proxy that speaks HTTP/1.0, and who reads slowly keeps nobody from the log.
func (h *handler) download(format string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := ask(r.URL, h.Now())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 3*h.answerTime)
		defer cancel()
		a.Filter.Limit, a.Filter.Within = mostRecords, within(ctx)
		done, err := wait(ctx, h.fetching.reader(ctx), h.files)
		if err != nil {
			http.Error(w, fmt.Sprintf("%d downloads are made at a time, %d of a reader, and these have their places for now: ask again", filesAtOnce, filesEach), http.StatusServiceUnavailable)
			return
		}
		defer done()
		file, err := h.makeFile(ctx, a.Filter, format)
		if err != nil {
			h.refuse(ctx, w, r, err)
			return
		}
		defer func() {
			if err := file.Close(); err != nil {
				h.Logger.Warn("console: a download's file stays", "err", err)
			}
		}()
		w.Header().Set("Content-Type", downloads[format])
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="sallyport-%s.%s"`, a.Filter.Until.UTC().Format("20060102-150405"), format))
		w.Header().Set("Content-Length", strconv.FormatInt(file.length, 10))
		if _, err := io.Copy(&taker{w, http.NewResponseController(w), h.takeTime, time.Now().Add(mostTaking)}, file); err != nil {
			h.Logger.Warn("console: a download was not taken", "format", format, "err", err)
			panic(http.ErrAbortHandler) // half a file shall not pass for a whole one
		}
	}
}

// refuse says why there is no file.
func (h *handler) refuse(ctx context.Context, w http.ResponseWriter, r *http.Request, err error) {
	var mend wrong
	switch {
	case errors.As(err, &mend):
		http.Error(w, mend.Error(), http.StatusRequestEntityTooLarge)
	case ctx.Err() != nil:
		http.Error(w, fmt.Sprintf("the file was not made within %v: choose less time, or let sallyport audit export write it", 3*h.answerTime), http.StatusServiceUnavailable)
	default:
		h.Logger.Warn("console: no download", "file", r.URL.Path, "err", err)
		http.Error(w, "the file could not be made; the server's log says why", http.StatusInternalServerError)
	}
}

// taker writes to a client who goes on taking: so much time for the next piece, and for all of it until an end.
type taker struct {
	http.ResponseWriter
	control *http.ResponseController
	next    time.Duration
	end     time.Time
}

func (t *taker) Write(b []byte) (int, error) {
	at := time.Now().Add(t.next)
	if at.After(t.end) {
		at = t.end
	}
	if err := t.control.SetWriteDeadline(at); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return t.ResponseWriter.Write(b)
}

// makeFile makes the file.
func (h *handler) makeFile(ctx context.Context, f query.Filter, format string) (p *spooled, err error) {
	p = &spooled{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if format == "parquet" {
		return p, h.columnsOf(ctx, f, p)
	}
	return p, p.packed(func(to io.Writer) error {
		out := bufio.NewWriter(to)
		writer, err := query.NewWriter(format, out)
		if err != nil {
			return err
		}
		return errors.Join(query.End(writer, query.Each(ctx, h.DB, f, writer.Write)), out.Flush())
	})
}

// columnsOf makes it of Parquet.
func (h *handler) columnsOf(ctx context.Context, f query.Filter, p *spooled) (err error) {
	folder, err := scratch.New()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	file := filepath.Join(folder.Path, "log.parquet")
	if err := h.writeParquet(ctx, f, file); err != nil {
		return err
	}
	return p.plain(file)
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
			return errLong
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
