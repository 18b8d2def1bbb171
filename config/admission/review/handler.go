package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config says who answers, and how calls are counted.
type Config struct {
	Log *slog.Logger
	// Answer decides, and says which of the metric's results that is. The answer's UID is set by the handler. ctx ends
	// after Timeout.
	Answer  func(ctx context.Context, request *admissionv1.AdmissionRequest) (response *admissionv1.AdmissionResponse, result string)
	Timeout time.Duration         // of one call; less than the API server waits
	Enter   Enter                 // nil: everybody is let in
	Metric  Metric                // the calls by result
	Metrics prometheus.Registerer // nil for none
}

// Enter is asked before a call's body is read, which says that it has so many bytes and is kept until leave is called. Not ok is no room: the call is refused. end may be called until then,
// for what was given to be given back: nothing more is read of the call, and nobody answers it.
type Enter func(r *http.Request, bytes int, end func()) (leave func(), ok bool)

// Handler answers reviews. What is no review gets an HTTP error and counts as Malformed, what there is no room for as Busy.
func Handler(cfg Config) http.Handler {
	return &handler{cfg: cfg, calls: cfg.Metric.register(cfg.Metrics)}
}

type handler struct {
	cfg   Config
	calls *prometheus.HistogramVec
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.Timeout)
	defer cancel()
	call := http.NewResponseController(w)
	_ = call.SetReadDeadline(began.Add(h.cfg.Timeout)) // where the server can
	bytes, status, err := announced(w, r)
	if err != nil {
		h.refuse(w, Malformed, began, status, err)
		return
	}
	if h.cfg.Enter != nil {
		end := &ending{end: func() { cancel(); _ = call.SetReadDeadline(began) }}
		defer end.none()
		leave, ok := h.cfg.Enter(r, bytes, end.now)
		if !ok {
			h.refuse(w, Busy, began, http.StatusTooManyRequests, errBusy)
			return
		}
		defer leave()
	}
	request, status, err := read(w, r)
	if ctx.Err() != nil {
		h.refuse(w, Busy, began, http.StatusServiceUnavailable, errBusy)
		return
	}
	if err != nil {
		h.refuse(w, Malformed, began, status, err)
		return
	}
	response, result := h.cfg.Answer(ctx, request)
	response.UID = request.UID
	h.count(result, began)
	w.Header().Set("Content-Type", "application/json")
	err = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}, Response: response,
	})
	if err != nil {
		h.cfg.Log.Debug("the answer was not sent", "err", err)
	}
}

var errBusy = errors.New("too much is being reviewed, try again")

func (h *handler) refuse(w http.ResponseWriter, result string, began time.Time, status int, why error) {
	h.count(result, began)
	http.Error(w, why.Error(), status)
}

// ending ends a call that is under way, and none that is over: then its writer is somebody else's.
type ending struct {
	mu   sync.Mutex
	over bool
	end  func()
}

func (e *ending) now() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.end()
	}
}

func (e *ending) none() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
}

func (h *handler) count(result string, began time.Time) {
	h.calls.WithLabelValues(result).Observe(time.Since(began).Seconds())
}

// What became of calls that nobody answered: they hold no review, or there was no room or time for them.
const (
	Malformed = "malformed"
	Busy      = "busy"
)

// Metric is a histogram of the calls' durations in seconds, with the label "result".
type Metric struct {
	Name, Help string
	Results    []string // all that Answer may give; each is shown from the start, as Malformed and Busy are
}

func (m Metric) register(to prometheus.Registerer) *prometheus.HistogramVec {
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: m.Name, Help: m.Help, Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10},
	}, []string{"result"})
	calls.WithLabelValues(Malformed)
	calls.WithLabelValues(Busy)
	for _, result := range m.Results {
		calls.WithLabelValues(result)
	}
	if to != nil {
		to.MustRegister(calls)
	}
	return calls
}

// Limits of what the API server passes on, in bytes: a message, and all of an answer
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response).
const (
	maxWarning  = 256
	maxWarnings = 4096
)

// Fit cuts warnings to what the API server passes on. Where there is no room for all, the last one says how many are
// left out, followed by seeing: where to see them, such as "; see FILE".
func Fit(warnings []string, seeing string) []string {
	var out []string
	room := maxWarnings - maxWarning // for the last one
	for i, w := range warnings {
		if len(w) > maxWarning {
			w = strings.ToValidUTF8(w[:maxWarning-3], "") + "..."
		}
		if room -= len(w); room < 0 {
			return append(out, fmt.Sprintf("and %d more warnings%s", len(warnings)-i, seeing))
		}
		out = append(out, w)
	}
	return out
}
