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

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/admission/review"
)

const defaultTimeout = 4 * time.Second

// Config says what the webhook uses.
type Config struct {
	Log *slog.Logger
	// Check finds what an object does not do although it seems to, given the others of the mesh. nil: nobody looks.
	Check func(ctx context.Context, o config.Object) []admission.Finding
	// Foresee warns of what an object that is not refused would do. nil: nobody looks.
	Foresee func(ctx context.Context, o config.Object) []admission.Finding
	Metrics prometheus.Registerer // nil for none
	Timeout time.Duration         // of one call; 0 for 4 s, which is less than the API server waits
	Enter   review.Enter          // nil: everybody is let in
}

// Handler is the validating admission webhook. A refusal lists every error, also as the status's causes, by field.
func Handler(cfg Config) http.Handler {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	h := &handler{cfg: cfg}
	return review.Handler(review.Config{
		Log: cfg.Log, Answer: h.review, Timeout: cfg.Timeout, Enter: cfg.Enter, Metrics: cfg.Metrics,
		Metric: review.Metric{
			Name: "sallyport_validation_seconds", Help: "Calls of the validating webhook by what became of the object.",
			Results: []string{resultAllowed, resultRefused},
		},
	})
}

// What became of a call.
const (
	resultAllowed = "allowed"
	resultRefused = "refused"
)

type handler struct{ cfg Config }

// review answers, and logs refusals.
func (h *handler) review(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
	response := h.answer(ctx, request)
	if response.Allowed {
		return response, resultAllowed
	}
	h.cfg.Log.Info("an object is refused", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name,
		"user", request.UserInfo.Username, "why", response.Result.Message)
	return response, resultRefused
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
		found := h.cfg.Check(ctx, *object)
		if request.Operation == admissionv1.Update && admission.Refused(found) {
			if _, before := judge(request.OldObject.Raw); before != nil {
				found = excuse(found, h.cfg.Check(ctx, *before))
			}
		}
		if findings = append(findings, found...); admission.Refused(findings) {
			return refusal(findings)
		}
	}
	if object != nil && h.cfg.Foresee != nil {
		findings = append(h.cfg.Foresee(ctx, *object), findings...) // first, lest there be no room for it
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
