package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
)

// rows is a sink of SQL that keeps the last row.
type rows struct{ last []any }

// Columns implements query.RowSink.
func (r *rows) Columns([]string) error { return nil }

// Row implements query.RowSink.
func (r *rows) Row(values []any) error {
	r.last = values
	return nil
}

// count is how many records the log has.
func (s *server) count(ctx context.Context) (int, error) {
	var r rows
	if err := query.Through(s.conn).SQL(ctx, "SELECT count(*) FROM records", &r); err != nil {
		return 0, err
	}
	return strconv.Atoi(fmt.Sprint(r.last[0]))
}

// measure does something some times.
func (r *report) measure(s *server, what string, target time.Duration, f func() error) error {
	took := make([]time.Duration, 0, r.rounds)
	if err := f(); err != nil { // what is read from the disk once is not measured
		return fmt.Errorf("%s: %w", what, err)
	}
	cpu := s.cpu()
	for range r.rounds {
		began := time.Now()
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	r.rows = append(r.rows, asked{what, took[len(took)/2], (s.cpu() - cpu) / time.Duration(r.rounds), target})
	return nil
}

// ask asks in SQL.
func ask(ctx context.Context, s *server, r *report) error {
	for _, by := range []string{"host", "namespace, service_account"} {
		err := r.measure(s, "the ten with the most records by "+by+", of all records", time.Second, func() error {
			return query.Through(s.conn).SQL(ctx, "SELECT "+by+", count(*) AS n FROM records GROUP BY ALL ORDER BY n DESC LIMIT 10", &rows{})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pages are those of a day.
var pages = []string{
	"/?q=since:24h", "/log?q=since:24h", "/log?q=verdict:denied+since:24h", "/log?q=host:*.vendor-7.example+since:24h", "/log?q=since:24h&group=host", "/log?q=since:24h&group=domain",
	"/log?q=since:24h&group=workload", "/log?q=since:24h&group=rule", "/flows?q=since:24h", "/host?name=api-7.vendor-7.example&q=since:24h", "/workload?name=team-7/service-7&q=since:24h", "/log?q=since:30d&group=host", "/findings",
}

// look asks for the pages.
func look(ctx context.Context, s *server, r *report) error {
	for _, page := range pages {
		shown, _ := url.QueryUnescape(page)
		err := r.measure(s, "`"+shown+"`", 300*time.Millisecond, func() error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.console+page, nil)
			if err != nil {
				return err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				return err
			}
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("it answers %s", response.Status)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
