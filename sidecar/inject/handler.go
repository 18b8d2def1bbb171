package inject

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config/admission/review"
)

const defaultTimeout = 8 * time.Second

// Namespaces knows the labels of namespaces, which a review does not hold.
type Namespaces interface {
	// NamespaceLabels gives an error for a namespace that it does not know (yet).
	NamespaceLabels(ctx context.Context, name string) (map[string]string, error)
}

// HandlerConfig says what the webhook uses.
type HandlerConfig struct {
	Log        *slog.Logger
	Settings   func() Settings // asked for each pod
	Namespaces Namespaces
	Metrics    prometheus.Registerer // nil for none
	Timeout    time.Duration         // of one call; 0 for 8 s, which is less than the API server waits
	Enter      review.Enter          // nil: everybody is let in
}

// Handler is the mutating admission webhook: admission.k8s.io/v1 reviews of pods that are created. It allows with a
// patch (RFC 6902), allows without, or refuses in the words of RefusedError. Everything else that is reviewed is allowed
// as it is.
func Handler(cfg HandlerConfig) http.Handler {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	h := &handler{cfg: cfg}
	return review.Handler(review.Config{
		Log: cfg.Log, Answer: h.answer, Timeout: cfg.Timeout, Enter: cfg.Enter, Metrics: cfg.Metrics,
		Metric: review.Metric{
			Name: "sallyport_injection_seconds", Help: "Calls of the injection webhook by what became of the pod.",
			Results: []string{resultInjected, resultSkipped, resultRefused, resultFailed, resultOther},
		},
	})
}

// What became of a call.
const (
	resultInjected = "injected"
	resultSkipped  = "skipped" // the pod is not to have a proxy, or has it
	resultRefused  = "refused" // the pod's mistake
	resultFailed   = "failed"  // ours
	resultOther    = "other"   // no creation of a pod
)

type handler struct{ cfg HandlerConfig }

// answer decides, and says which of the metrics' results it is.
func (h *handler) answer(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
	pods := metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	if request.Operation != admissionv1.Create || request.Resource != pods || request.SubResource != "" {
		return &admissionv1.AdmissionResponse{Allowed: true}, resultOther
	}
	var pod corev1.Pod
	if err := json.Unmarshal(request.Object.Raw, &pod); err != nil {
		return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the pod cannot be read: "+err.Error()), review.Malformed
	}
	name := request.Namespace
	if name == "" {
		name = pod.Namespace
	}
	labels, err := h.cfg.Namespaces.NamespaceLabels(ctx, name)
	if err != nil {
		h.cfg.Log.Error("a pod is refused, as its namespace's labels are not known", "namespace", name, "err", err)
		return refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			fmt.Sprintf("the labels of namespace %q are not known, so neither is whether the pod gets a proxy; try again", name)), resultFailed
	}
	return h.inject(&pod, Namespace{Name: name, Labels: labels})
}

func (h *handler) inject(pod *corev1.Pod, ns Namespace) (*admissionv1.AdmissionResponse, string) {
	result, err := Inject(pod, ns, h.cfg.Settings())
	if err != nil {
		h.cfg.Log.Info("a pod is refused", "pod", podName(pod, ns), "why", err)
		return refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, err.Error()), resultRefused
	}
	response := &admissionv1.AdmissionResponse{Allowed: true, Warnings: review.Fit(result.Warnings, "")}
	if result.Pod == nil {
		h.cfg.Log.Debug("a pod stays as it is", "pod", podName(pod, ns), "why", result.Reason)
		return response, resultSkipped
	}
	if response.Patch, err = Patch(pod, result.Pod); err != nil {
		h.cfg.Log.Error("a pod cannot be changed", "pod", podName(pod, ns), "err", err)
		return refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError, "the pod cannot be changed: "+err.Error()), resultFailed
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.PatchType = &kind
	return response, resultInjected
}

func refuse(code int32, reason metav1.StatusReason, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}
