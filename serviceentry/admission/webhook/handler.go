package webhook

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/admission"
)

const defaultTimeout = 4 * time.Second

// Config says what the webhook uses.
type Config struct {
	Log *slog.Logger
	// Check finds what an object does not do although it seems to, given the others of the mesh; what it finds become
	// warnings. nil: nobody looks.
	Check   func(ctx context.Context, o serviceentry.Object) []admission.Finding
	Metrics prometheus.Registerer // nil for none
	Timeout time.Duration         // of one call; 0 for 4 s, which is less than the API server waits
}

// Handler is the validating admission webhook. A refusal lists every error, also as the status's causes, by field.
func Handler(cfg Config) http.Handler {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	return &handler{cfg: cfg, metrics: newMetrics(cfg.Metrics)}
}

type handler struct {
	cfg     Config
	metrics *metrics
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.Timeout)
	defer cancel()
	_ = http.NewResponseController(w).SetReadDeadline(began.Add(h.cfg.Timeout)) // where the server can
	request, status, err := readReview(w, r)
	if err != nil {
		h.metrics.count(resultMalformed, began)
		http.Error(w, err.Error(), status)
		return
	}
	response := h.answer(ctx, request)
	response.UID = request.UID
	result := resultAllowed
	if !response.Allowed {
		result = resultRefused
		h.cfg.Log.Info("an object is refused", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name,
			"user", request.UserInfo.Username, "why", response.Result.Message)
	}
	h.metrics.count(result, began)
	w.Header().Set("Content-Type", "application/json")
	err = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Response: response,
	})
	if err != nil {
		h.cfg.Log.Debug("the answer was not sent", "err", err)
	}
}

func (h *handler) answer(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	writes := request.Operation == admissionv1.Create || request.Operation == admissionv1.Update
	if !writes || request.SubResource != "" || ending(request.Object.Raw) {
		return &admissionv1.AdmissionResponse{Allowed: true}
	}
	findings, object := judge(request.Object.Raw)
	if request.Operation == admissionv1.Update && admission.Refused(findings) {
		before, _ := judge(request.OldObject.Raw)
		findings = excuse(findings, before)
	}
	if admission.Refused(findings) {
		return refusal(findings)
	}
	if object != nil && h.cfg.Check != nil {
		findings = append(findings, h.cfg.Check(ctx, *object)...)
	}
	return &admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings(findings)}
}

// ending says whether the object is on its way out, and only its finalizers keep it.
func ending(raw []byte) bool {
	var o struct {
		Metadata struct {
			DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
		} `json:"metadata"`
	}
	return json.Unmarshal(raw, &o) == nil && o.Metadata.DeletionTimestamp != nil
}
