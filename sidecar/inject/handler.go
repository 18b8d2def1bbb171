package inject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of a call.
const (
	maxReview      = 8 << 20 // bytes; an object has at most 3 MiB, and may be there twice
	defaultTimeout = 8 * time.Second
)

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
}

// Handler is the mutating admission webhook: admission.k8s.io/v1 reviews of pods that are created. It allows with a
// patch (RFC 6902), allows without, or refuses in the words of RefusedError. Everything else that is reviewed is allowed
// as it is.
func Handler(cfg HandlerConfig) http.Handler {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	return &handler{cfg: cfg, metrics: newMetrics(cfg.Metrics)}
}

type handler struct {
	cfg     HandlerConfig
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
	response, result := h.answer(ctx, request)
	response.UID = request.UID
	h.metrics.count(result, began)
	w.Header().Set("Content-Type", "application/json")
	err = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Response: response,
	})
	if err != nil {
		h.cfg.Log.Debug("the answer was not sent", "err", err)
	}
}

// readReview takes the request out of the call; the status is for an error.
func readReview(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, int, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, errors.New("send an AdmissionReview with POST")
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, errors.New("send application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("a review has at most %d bytes", large.Limit)
	} else if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the review could not be read: %w", err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("no AdmissionReview: %w", err)
	}
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" || review.Request == nil {
		return nil, http.StatusBadRequest, fmt.Errorf("%s %s: send an AdmissionReview of %s with a request", review.APIVersion, review.Kind, admissionv1.SchemeGroupVersion)
	}
	return review.Request, 0, nil
}

// answer decides, and says which of the metrics' results it is.
func (h *handler) answer(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
	pods := metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	if request.Operation != admissionv1.Create || request.Resource != pods || request.SubResource != "" {
		return &admissionv1.AdmissionResponse{Allowed: true}, resultOther
	}
	var pod corev1.Pod
	if err := json.Unmarshal(request.Object.Raw, &pod); err != nil {
		return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the pod cannot be read: "+err.Error()), resultMalformed
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
	response := &admissionv1.AdmissionResponse{Allowed: true, Warnings: fit(result.Warnings)}
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
