package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
)

// maxReview is the size of a call at most, in bytes; an object has at most 3 MiB, and may be there twice.
const maxReview = 8 << 20

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
