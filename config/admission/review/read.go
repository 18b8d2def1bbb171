package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
)

const (
	kind      = "AdmissionReview"
	maxReview = 8 << 20 // bytes of a call; an object has at most 3 MiB, and may be there twice
)

// announced is how many bytes a call has at most by its head; the status is for an error.
func announced(w http.ResponseWriter, r *http.Request) (bytes, status int, err error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return 0, http.StatusMethodNotAllowed, errors.New("send an AdmissionReview with POST")
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return 0, http.StatusUnsupportedMediaType, errors.New("send application/json")
	}
	switch {
	case r.ContentLength > maxReview:
		return 0, http.StatusRequestEntityTooLarge, fmt.Errorf("a review has at most %d bytes", maxReview)
	case r.ContentLength < 0:
		return maxReview, 0, nil
	}
	return int(r.ContentLength), 0, nil
}

// read takes the request out of the call; the status is for an error.
func read(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, int, error) {
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
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != kind || review.Request == nil {
		return nil, http.StatusBadRequest, fmt.Errorf("%s %s: send an AdmissionReview of %s with a request", review.APIVersion, review.Kind, admissionv1.SchemeGroupVersion)
	}
	return review.Request, 0, nil
}
