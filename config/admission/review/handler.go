package review

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
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
