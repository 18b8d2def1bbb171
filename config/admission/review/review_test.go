package review

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
)

// called calls a handler that allows everything that comes with time left.
func called(t *testing.T, metrics prometheus.Registerer, method, media, body string) *httptest.ResponseRecorder {
	t.Helper()
	h := Handler(Config{
		Log: slog.New(slog.DiscardHandler), Timeout: time.Minute, Metrics: metrics,
		Metric: Metric{Name: "calls_seconds", Help: "Calls.", Results: []string{"fine", "late"}},
		Answer: func(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
			if end, ok := ctx.Deadline(); !ok || time.Until(end) > time.Minute {
				return &admissionv1.AdmissionResponse{}, "late"
			}
			return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{request.Name}}, "fine"
		},
	})
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", media)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAnswer(t *testing.T) {
	registry := prometheus.NewRegistry()
	w := called(t, registry, http.MethodPost, "application/json; charset=utf-8",
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","name":"web"}}`)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if answer.APIVersion != "admission.k8s.io/v1" || answer.Kind != "AdmissionReview" || answer.Response == nil {
		t.Fatalf("%s", w.Body)
	}
	if got := answer.Response; !got.Allowed || got.UID != "u-1" || got.Warnings[0] != "web" {
		t.Errorf("%+v", got)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 4 {
		t.Errorf("%v %v: want fine, late, malformed and busy", families, err)
	}
}

func TestMalformedCalls(t *testing.T) {
	for _, c := range []struct {
		name, method, media, body string
		want                      int
	}{
		{"GET", http.MethodGet, "application/json", "", http.StatusMethodNotAllowed},
		{"form", http.MethodPost, "application/x-www-form-urlencoded", "", http.StatusUnsupportedMediaType},
		{"no type", http.MethodPost, "", "{}", http.StatusUnsupportedMediaType},
		{"no JSON", http.MethodPost, "application/json", "{", http.StatusBadRequest},
		{"no request", http.MethodPost, "application/json; charset=utf-8", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, http.StatusBadRequest},
		{"v1beta1", http.MethodPost, "application/json", `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}`, http.StatusBadRequest},
		{"large", http.MethodPost, "application/json", strings.Repeat(" ", maxReview+1), http.StatusRequestEntityTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			if w := called(t, nil, c.method, c.media, c.body); w.Code != c.want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.want)
			}
		})
	}
}

// body is one that tells whether it is read, and comes when end was called.
type body struct {
	read chan struct{}
	end  chan struct{}
}

func (b *body) Read([]byte) (int, error) {
	close(b.read)
	<-b.end
	return 0, io.ErrUnexpectedEOF
}

// TestEnter: who is not let in has no byte of his body read; who has to give his room back is not answered; what was taken is given back.
func TestEnter(t *testing.T) {
	entered, left, asked := 0, 0, 0
	var end func()
	room := true
	h := Handler(Config{
		Log: slog.New(slog.DiscardHandler), Timeout: time.Minute, Metric: Metric{Name: "calls_seconds", Help: "Calls."},
		Enter: func(_ *http.Request, bytes int, stop func()) (func(), bool) {
			end, asked = stop, bytes
			if room {
				entered++
			}
			return func() { left++ }, room
		},
		Answer: func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
			t.Error("it was answered")
			return &admissionv1.AdmissionResponse{}, "fine"
		},
	})
	call := func(length int64, meanwhile func(*body)) int {
		b := &body{make(chan struct{}), make(chan struct{})}
		r := httptest.NewRequest(http.MethodPost, "/", b)
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			meanwhile(b)
		}()
		h.ServeHTTP(w, r)
		<-done
		return w.Code
	}
	ended := func(b *body) {
		<-b.read
		end()
		close(b.end)
	}
	if code := call(100, ended); code != http.StatusServiceUnavailable || asked != 100 {
		t.Errorf("who gave back, of %d bytes: %d", asked, code)
	}
	if code := call(-1, ended); code != http.StatusServiceUnavailable || asked != maxReview {
		t.Errorf("who does not say how much comes, of %d bytes: %d", asked, code)
	}
	end() // of a call that is over
	room = false
	untouched := func(*body) {}
	if code := call(100, untouched); code != http.StatusTooManyRequests {
		t.Errorf("without room: %d", code)
	}
	room = true
	if code := call(maxReview+1, untouched); code != http.StatusRequestEntityTooLarge {
		t.Errorf("too large by its head: %d", code)
	}
	if entered != 2 || left != 2 {
		t.Errorf("%d came in, %d left", entered, left)
	}
}

func TestFit(t *testing.T) {
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("%d %s", i, strings.Repeat("ä", 200)))
	}
	got := Fit(many, "; see the log")
	size := 0
	for _, w := range got {
		if len(w) > maxWarning {
			t.Errorf("%d bytes", len(w))
		}
		size += len(w)
	}
	if size > maxWarnings || !strings.HasSuffix(got[len(got)-1], "more warnings; see the log") {
		t.Errorf("%d bytes, %s", size, got[len(got)-1])
	}
	if got := Fit([]string{"one"}, ""); len(got) != 1 || got[0] != "one" {
		t.Error(got)
	}
}
