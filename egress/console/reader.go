package console

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/console/login"
	"github.com/sallyport/sallyport/egress/detect"
)

// forbidden is an error about what a reader may not see.
type forbidden struct{ error }

var errNotAll = errors.New("this is about the whole mesh: it is for those who may read the records of all namespaces")

type readerKey struct{}

// tokenKey is of a reader's token, which is for the API server alone.
type tokenKey struct{}

// readerOf is who asks; everybody reads everything where nobody logs in.
func readerOf(ctx context.Context) login.Reader {
	if r, ok := ctx.Value(readerKey{}).(login.Reader); ok {
		return r
	}
	return login.Reader{All: true}
}

// within are the namespaces that a reader's pages are about; none: all.
func within(ctx context.Context) []string {
	r := readerOf(ctx)
	if r.All {
		return nil
	}
	if len(r.Namespaces) == 0 {
		return []string{""} // nobody's
	}
	return r.Namespaces
}

// narrowed says whether a statement keeps to a reader's namespaces. One that does not is not run, rather than shown to whom it is not for.
func narrowed(ctx context.Context, statement string) bool {
	return readerOf(ctx).All || strings.Contains(statement, "namespace IN (")
}

// loginPage is where people log in, or are told why not.
type loginPage struct {
	Next, Problem string
	Issuer        bool
	None          query.Expression
}

// errLeaving is shown to who logged out here, on the way to do so at the issuer.
var errLeaving = errors.New("you are logged out here, and will be at the issuer in a moment")

// mostLogin is how many bytes the form of a login has.
const mostLogin = 32 << 10

// logins are the pages of who comes and goes. Nobody needs to be logged in for them.
func (h *handler) logins(mux *http.ServeMux) {
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) { h.askWho(w, r, nil) })
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostLogin)
		if err := r.ParseForm(); err != nil {
			h.askWho(w, r, wrong{err})
			return
		}
		if _, err := h.gate.ByToken(w, r, r.PostForm.Get("token")); err != nil {
			h.askWho(w, r, err)
			return
		}
		http.Redirect(w, r, login.Within(r.PostForm.Get("next")), http.StatusSeeOther) //nolint:gosec // Within leads nowhere else
	})
	mux.HandleFunc("GET /login/issuer", func(w http.ResponseWriter, r *http.Request) {
		to, err := h.gate.AtIssuer(w, r, r.URL.Query().Get("next"))
		if err != nil {
			h.askWho(w, r, err)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // to the issuer that the flags name
	})
	mux.HandleFunc("GET "+login.CallbackPath, func(w http.ResponseWriter, r *http.Request) {
		next, err := h.gate.FromIssuer(w, r)
		if err != nil {
			h.askWho(w, r, err)
			return
		}
		http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // it was Within when the login began
	})
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) {
		if to := h.gate.Leave(w, r); to != "" {
			w.Header().Set("Refresh", "0; url="+to) // no redirect: a form leads nowhere but here
			h.askWho(w, r, errLeaving)
			return
		}
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	})
}

// askWho shows the page that people log in on, with what went wrong.
func (h *handler) askWho(w http.ResponseWriter, r *http.Request, problem error) {
	next := r.URL.Query().Get("next")
	if r.Method == http.MethodPost {
		next = r.PostForm.Get("next")
	}
	status, p := http.StatusOK, loginPage{Next: login.Within(next), Issuer: h.gate.Issuer != nil}
	if problem != nil {
		status, p.Problem = refusal(problem), problem.Error()
	}
	s := shown{view: view{Template: "login", Title: "Log in", Fixed: true, Data: p}}
	h.write(w, r, s, status)
}

// refusal is the status that says so.
func refusal(err error) int {
	var mend wrong
	switch {
	case errors.As(err, &mend):
		return http.StatusBadRequest
	case errors.Is(err, login.ErrTooMany):
		return http.StatusTooManyRequests
	case errors.Is(err, login.ErrNothing):
		return http.StatusForbidden
	case errors.Is(err, errLeaving):
		return http.StatusOK
	case errors.Is(err, login.ErrUnasked), errors.Is(err, login.ErrUnrecorded):
		return http.StatusServiceUnavailable
	}
	return http.StatusUnauthorized
}

// known lets those in who are logged in, and says who they are.
func (h *handler) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostPasted) // whoever it is
		if strings.HasPrefix(r.URL.Path, "/static/") || r.URL.Path == "/login" || strings.HasPrefix(r.URL.Path, "/login/") || r.URL.Path == "/logout" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		reader, err := h.gate.Reader(r)
		switch {
		case err == nil:
			ctx := context.WithValue(r.Context(), readerKey{}, reader)
			next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, tokenKey{}, h.gate.Token(r))))
		case isProgram(r):
			if !errors.Is(err, login.ErrNobody) {
				h.gate.Refused(r, err)
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="sallyport"`)
			http.Error(w, err.Error(), refusal(err))
		case errors.Is(err, login.ErrNobody):
			to := "/login"
			if r.Method == http.MethodGet {
				to += "?" + url.Values{"next": {r.URL.RequestURI()}}.Encode()
			}
			http.Redirect(w, r, to, http.StatusSeeOther)
		default:
			h.gate.Refused(r, err)
			h.askWho(w, r, err)
		}
	})
}

// isProgram knows requests that no browser makes by itself.
func isProgram(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || !strings.Contains(r.Header.Get("Accept"), "text/html")
}

// spacesFor is how long a namespace that is new in the log may be missing.
const spacesFor = 10 * time.Second

// namespaces reads those that sent something, or whose proxies told of who came.
func (h *handler) namespaces(ctx context.Context) ([]string, error) {
	return h.spaces.read(ctx, h.Now(), spacesFor, func(ctx context.Context) (names []string, err error) {
		who := " WHERE namespace <> '' UNION SELECT DISTINCT destination_namespace FROM " + store.Relation("destination_namespace", "reporter") + " WHERE reporter = '" + record.ReporterDestination + "' AND destination_namespace <> ''"
		err = h.sighted(ctx, func(sightings string) string { return "SELECT DISTINCT namespace FROM " + sightings + who }, nil, func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			names = append(names, name)
			return err
		})
		return names, err
	})
}

// aboutOthers are detections whose findings are a namespace's by what its objects did to the traffic of others, of which they tell.
var aboutOthers = map[string]bool{"rule-expiring": true}

// found are the findings that a reader may see.
func (h *handler) found(ctx context.Context) *detect.Report {
	if h.Found == nil {
		return nil
	}
	r := h.Found()
	if who := readerOf(ctx); r != nil && !who.All {
		r = &detect.Report{Window: r.Window, Findings: slices.DeleteFunc(slices.Clone(r.Findings), func(f detect.Finding) bool {
			return aboutOthers[f.Detection] || !slices.Contains(who.Namespaces, f.Namespace)
		})}
	}
	return r
}
