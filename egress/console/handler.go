package console

import (
	"bytes"
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
)

//go:embed page
var page embed.FS

// Bounds of one answer.
const (
	defaultRecords = 200
	maxRecords     = 5000
	chartSlices    = 120
	topHosts       = 10
	answerTime     = 20 * time.Second
)

// handler serves the page and its JSON.
type handler struct {
	db  *sql.DB
	log *slog.Logger
	now func() time.Time
}

// newHandler makes the routes; allowed decides about the Host header.
func newHandler(db *sql.DB, log *slog.Logger, now func() time.Time, allowed func(host string) bool) http.Handler {
	h := &handler{db, log, now}
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /api/records", h.records)
	mux.HandleFunc("GET /api/summary", h.summary)
	return guard(mux, allowed)
}

// records answers with the newest records that fit, oldest first.
func (h *handler) records(w http.ResponseWriter, r *http.Request) {
	filter, err := parseFilter(r.URL.Query(), h.now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	records := []record.Record{}
	err = query.Each(ctx, h.db, filter, func(r record.Record) error {
		records = append(records, r)
		return nil
	})
	h.answer(w, records, err)
}

// summary answers with counts over the filter's time, which ends now where it has no end.
func (h *handler) summary(w http.ResponseWriter, r *http.Request) {
	now := h.now()
	filter, err := parseFilter(r.URL.Query(), now)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if filter.Until.IsZero() {
		filter.Until = now
	}
	if filter.Since.IsZero() || !filter.Since.Before(filter.Until) {
		filter.Since = filter.Until.Add(-time.Hour)
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	s, err := query.Summarise(ctx, h.db, filter, chartSlices, topHosts)
	h.answer(w, s, err)
}

func (h *handler) answer(w http.ResponseWriter, v any, err error) {
	var body bytes.Buffer
	if err == nil {
		err = json.NewEncoder(&body).Encode(v)
	}
	if err != nil {
		h.log.Warn("console: no answer", "err", err)
		http.Error(w, "the audit log could not be read; the server's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = body.WriteTo(w) // nobody is there to hear that the client left
}

// parseFilter reads since, until, verdict, host, from and limit, as the command line has them.
func parseFilter(v url.Values, now time.Time) (f query.Filter, err error) {
	if f.Since, err = query.ParseTime(v.Get("since"), now); err != nil {
		return f, err
	}
	if f.Until, err = query.ParseTime(v.Get("until"), now); err != nil {
		return f, err
	}
	if f.Verdict, err = query.ParseVerdict(v.Get("verdict")); err != nil {
		return f, err
	}
	if f.From, err = query.ParseWorkload(v.Get("from")); err != nil {
		return f, err
	}
	f.Host, f.Limit = v.Get("host"), defaultRecords
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxRecords {
			return f, errLimit
		}
		f.Limit = n
	}
	return f, nil
}
