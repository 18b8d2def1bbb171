package console

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/console/login"
)

//go:embed page
var sources embed.FS

// page makes what a template shows. Its name is that of a file in the folder page.
type page func(ctx context.Context, r *http.Request, a asked) (view, error)

// view is a page.
type view struct {
	Template string // "log" for page/log.html
	Title    string
	Fixed    bool // the page is not about a time: it has no filter
	status   int  // of HTTP, where it says what is wrong and keeps what was written; 0: it is an answer
	basis         // of a page about the configuration
	Data     any
	// then makes the page, if it is there, when others have their turn again: it waits for somebody else than the log and the configuration.
	then func(context.Context) (view, error)
}

// shown is what all templates see.
type shown struct {
	view
	asked
	Error  string
	Ranges []choice
	Chips  []choice
	Nav    []choice
	Reader login.Reader // its name is empty where nobody logs in
}

// choice is something to click.
type choice struct {
	Text, Link string
	Current    bool
}

// filtered are the pages that are about what a filter chooses.
var filtered = map[string]bool{"/": true, "/log": true, "/flows": true, "/host": true, "/workload": true}

// wrong is an error that is the reader's to mend.
type wrong struct{ error }

// halfway is an error that is the server's, and that the reader has to know.
type halfway struct{ error }

// missing is an error about what is not there.
type missing struct{ error }

var templates = parseTemplates()

func parseTemplates() map[string]*template.Template {
	base := template.Must(template.New("base.html").Funcs(functions).ParseFS(sources, "page/base.html", "page/parts.html"))
	files, err := fs.Glob(sources, "page/*.html")
	if err != nil {
		panic(err) // the folder is embedded
	}
	out := map[string]*template.Template{}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "page/"), ".html")
		if name == "base" || name == "parts" {
			continue
		}
		out[name] = template.Must(template.Must(base.Clone()).ParseFS(sources, file))
	}
	return out
}

var functions = template.FuncMap{
	"count": func(n uint64) string { return thousands(n) }, "bytes": byteSize, "moment": moment, "iso": iso, "link": link, "is": is,
	"plural": plural, "visible": said, "plain": visible.Text, "percent": percent, "short": short, "soft": soft, "object": objectName,
}

// serve makes a page: bounded in time, and few at a time.
func (h *handler) serve(route string, p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), h.answerTime)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, mostPasted)
		s, status := h.make(ctx, r, route, p)
		h.write(w, r, s, status)
	})
}

// write sends a page.
func (h *handler) write(w http.ResponseWriter, r *http.Request, s shown, status int) {
	var body bytes.Buffer
	if err := templates[s.Template].ExecuteTemplate(&body, "base.html", s); err != nil {
		h.Logger.Error("console: a page could not be written", "page", r.URL.Path, "err", err)
		http.Error(w, "the page could not be written; the server's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // nobody is there to hear that the client left
}

func (h *handler) make(ctx context.Context, r *http.Request, route string, p page) (s shown, status int) {
	a, err := ask(r.URL, h.Now())
	a.Filter.Within = within(ctx)
	s = shown{asked: a, Reader: readerOf(ctx)}
	if err != nil {
		err = wrong{err}
	} else {
		s.view, err = h.inTurn(ctx, r, a, route, p)
	}
	status = cmp.Or(s.status, http.StatusOK)
	if err != nil {
		s.Template, s.Title, s.Fixed = "error", "No answer", !filtered[a.Path]
		s.Error, status = h.say(ctx, r, err)
	}
	s.Nav, s.Ranges, s.Chips = h.nav(a, h.Config != nil), ranges(a), chips(a)
	return s, status
}

// inTurn makes a page, a reader's few at a time.
func (h *handler) inTurn(ctx context.Context, r *http.Request, a asked, route string, p page) (v view, err error) {
	own, err := wait(ctx, h.each.reader(ctx))
	if err != nil {
		return v, err
	}
	defer own()
	if v, err = h.amongAll(ctx, r, a, route, p); err == nil && v.then != nil {
		return v.then(ctx)
	}
	return v, err
}

// amongAll waits until few enough other pages are being made. Who waits for the configuration, or to build a mesh,
// keeps pages of the log from nothing meanwhile.
func (h *handler) amongAll(ctx context.Context, r *http.Request, a asked, route string, p page) (v view, err error) {
	if mesh, asks := about[route]; asks {
		ctx = h.awaited(ctx)
		if mesh {
			alone, err := wait(ctx, h.meshes)
			if err != nil {
				return v, err
			}
			defer alone()
		}
	}
	done, err := wait(ctx, h.turns)
	if err != nil {
		return v, err
	}
	defer done()
	return p(ctx, r, a)
}

// say tells a reader what is wrong.
func (h *handler) say(ctx context.Context, r *http.Request, err error) (string, int) {
	var mend wrong
	var gone missing
	var closed forbidden
	var known halfway
	switch {
	case errors.As(err, &known):
		return known.Error(), http.StatusInternalServerError
	case errors.As(err, &closed):
		return closed.Error(), http.StatusForbidden
	case errors.As(err, &mend):
		return mend.Error(), http.StatusBadRequest
	case errors.As(err, &gone):
		return gone.Error(), http.StatusNotFound
	case ctx.Err() != nil:
		return fmt.Sprintf("The answer took longer than %v. Look at less time, or at fewer records.", h.answerTime), http.StatusServiceUnavailable
	}
	h.Logger.Warn("console: no answer", "page", r.URL.Path, "err", err)
	return "The audit log could not be read; the server's log says why.", http.StatusInternalServerError
}

// nav are the pages, with the filter; those about the configuration where it is known.
func (h *handler) nav(a asked, config bool) (out []choice) {
	for _, p := range []struct {
		path, text string
		shown      bool
	}{
		{"/", "Overview", true}, {"/log", "Log", true}, {"/flows", "Flows", true}, {"/findings", "Findings", true},
		{"/policies", "Policies", config}, {"/explain", "Explain", config}, {"/review", "Review", config}, {"/simulate", "Simulate", config},
	} {
		if !p.shown {
			continue
		}
		out = append(out, choice{p.text, link(p.path, a.Expression), a.Path == p.path})
	}
	return out
}

// ranges are times that are often asked for.
func ranges(a asked) (out []choice) {
	now := a.Expression.Since
	if now == "" {
		now = usualSince
	}
	for _, since := range []string{"15m", "1h", "24h", "7d", "30d"} {
		out = append(out, choice{since, a.here(a.Expression.Between(since, "")), a.Expression.Until == "" && now == since})
	}
	return out
}

// chips are the terms, each of which can be taken away.
func chips(a asked) (out []choice) {
	for i, t := range a.Expression.Terms {
		out = append(out, choice{Text: t.String(), Link: a.here(a.Expression.Without(i))})
	}
	if !slices.Contains([]string{"", "15m", "1h", "24h", "7d", "30d"}, a.Expression.Since) || a.Expression.Until != "" {
		out = append(out, choice{Text: strings.TrimSpace(query.Expression{Since: a.Expression.Since, Until: a.Expression.Until}.String()),
			Link: a.here(a.Expression.Between("", ""))})
	}
	return out
}

// Params are further parameters of the page, which its form keeps.
func (s shown) Params() (out []choice) {
	for _, name := range []string{"name", "group", "col", "by"} {
		for _, v := range s.values[name] {
			out = append(out, choice{Text: name, Link: v})
		}
	}
	return out
}

func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

func byteSize(n uint64) string {
	if n < 1000 {
		return strconv.FormatUint(n, 10) + " B"
	}
	f, unit := float64(n), ""
	for _, unit = range []string{"kB", "MB", "GB", "TB", "PB", "EB"} {
		if f /= 1000; f < 999.5 {
			break
		}
	}
	if f < 9.95 {
		return strconv.FormatFloat(f, 'f', 1, 64) + " " + unit
	}
	return strconv.FormatFloat(f, 'f', 0, 64) + " " + unit
}

func percent(part, whole uint64) string {
	if whole == 0 {
		return "0 %"
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64) + " %"
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

func short(t time.Time) string { return t.UTC().Format("01-02 15:04:05") }

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
