package review

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
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
	Metric  Metric                // the calls by result
	Metrics prometheus.Registerer // nil for none
}

// Handler answers reviews. What is no review gets an HTTP error and counts as Malformed.
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
	_ = http.NewResponseController(w).SetReadDeadline(began.Add(h.cfg.Timeout)) // where the server can
	request, status, err := read(w, r)
	if err != nil {
		h.count(Malformed, began)
		http.Error(w, err.Error(), status)
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

func (h *handler) count(result string, began time.Time) {
	h.calls.WithLabelValues(result).Observe(time.Since(began).Seconds())
}

// Malformed is the result of a call that holds no review.
const Malformed = "malformed"

// Metric is a histogram of the calls' durations in seconds, with the label "result".
type Metric struct {
	Name, Help string
	Results    []string // all that Answer may give; each is shown from the start, as Malformed is
}

func (m Metric) register(to prometheus.Registerer) *prometheus.HistogramVec {
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: m.Name, Help: m.Help, Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10},
	}, []string{"result"})
	calls.WithLabelValues(Malformed)
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
