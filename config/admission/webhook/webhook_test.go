package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/tools/txtar"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
)

var update = flag.Bool("update", false, "rewrite the expected answers in testdata")

// everAlone is a check that finds one thing about every object.
func everAlone(_ context.Context, o config.Object) []admission.Finding {
	return []admission.Finding{{Severity: admission.Warning, Key: o.Key, Field: "spec.hosts[0]", Message: "nobody uses it", Fix: "remove it"}}
}

func testHandler() http.Handler {
	return Handler(Config{Log: slog.New(slog.DiscardHandler), Check: everAlone, Metrics: prometheus.NewRegistry()})
}

func send(t *testing.T, h http.Handler, request admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	request.UID = "u-1"
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &request,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/validate", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if answer.Response == nil || answer.Response.UID != request.UID {
		t.Fatalf("%s", w.Body)
	}
	return answer.Response
}

// TestGolden sends object.yaml of each archive, as an update of old.yaml if there is one; "want" is the answer.
func TestGolden(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, file := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want string
			request := admissionv1.AdmissionRequest{Operation: admissionv1.Create}
			for _, f := range archive.Files {
				switch f.Name {
				case "object.yaml":
					request.Object = raw(t, f.Data)
				case "old.yaml":
					request.OldObject, request.Operation = raw(t, f.Data), admissionv1.Update
				case "want":
					want = string(f.Data)
				}
			}
			got := text(send(t, testHandler(), request))
			if *update {
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s\nrun with -update when this is right", diff)
			}
		})
	}
}

func raw(t *testing.T, data []byte) runtime.RawExtension {
	t.Helper()
	plain, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: plain}
}

func text(r *admissionv1.AdmissionResponse) string {
	var b strings.Builder
	if r.Allowed {
		fmt.Fprintln(&b, "allowed")
	} else {
		fmt.Fprintf(&b, "refused (%d %s)\n%s\n", r.Result.Code, r.Result.Reason, r.Result.Message)
		for _, c := range r.Result.Details.Causes {
			fmt.Fprintf(&b, "cause: %s\n", c.Field)
		}
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// TestWhatIsNotJudged: bad as the object may be.
func TestWhatIsNotJudged(t *testing.T) {
	const bad = `{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"name":"a","namespace":"b"%s},"spec":{}}`
	plain, leaving := fmt.Sprintf(bad, ""), fmt.Sprintf(bad, `,"deletionTimestamp":"2026-01-01T00:00:00Z"`)
	for _, c := range []struct {
		name, object, sub string
		operation         admissionv1.Operation
		allowed           bool
	}{
		{"a creation is", plain, "", admissionv1.Create, false},
		{"a deletion", plain, "", admissionv1.Delete, true},
		{"a connection", plain, "", admissionv1.Connect, true},
		{"a status", plain, "status", admissionv1.Update, true},
		{"a finalizer's removal", leaving, "", admissionv1.Update, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := send(t, testHandler(), admissionv1.AdmissionRequest{
				Operation: c.operation, SubResource: c.sub, Object: runtime.RawExtension{Raw: []byte(c.object)},
			})
			if got.Allowed != c.allowed {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	hosts := make([]string, 2000)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("%q", strings.Repeat("_", 40)+fmt.Sprint(i))
	}
	object := `{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"name":"a","namespace":"b"},"spec":{"hosts":[` + strings.Join(hosts, ",") + `]}}`
	got := send(t, testHandler(), admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)}})
	if m := got.Result.Message; got.Allowed || len(m) > maxRefusal+100 || !strings.Contains(m, "more errors; see sallyport lint") {
		t.Errorf("%d bytes", len(m))
	}
	same := admission.Finding{Severity: admission.Warning, Message: "plain", Fix: "mend it"}
	many := []admission.Finding{same, same}
	for i := range 50 {
		many = append(many, admission.Finding{Severity: admission.Warning, Message: fmt.Sprint(i, strings.Repeat("ä", 200)), Fix: "mend it"})
	}
	said := warnings(many)
	if said[0] == said[1] || !strings.HasSuffix(said[len(said)-1], "more warnings; see sallyport lint") {
		t.Errorf("%q", said)
	}
}

// FuzzReview answers any object: no panic, a refusal has a message, warnings fit.
func FuzzReview(f *testing.F) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archives {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, a := range archive.Files {
			if plain, err := yaml.YAMLToJSON(a.Data); err == nil && a.Name == "object.yaml" {
				f.Add(plain, plain)
			}
		}
	}
	h := &handler{cfg: Config{Log: slog.New(slog.DiscardHandler), Check: everAlone}}
	f.Fuzz(func(t *testing.T, object, old []byte) {
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
			got := h.answer(t.Context(), &admissionv1.AdmissionRequest{
				Operation: operation, Object: runtime.RawExtension{Raw: object}, OldObject: runtime.RawExtension{Raw: old},
			})
			if !got.Allowed && got.Result.Message == "" {
				t.Fatal("refused without a word")
			}
		}
	})
}

// What is refused for what else there is, as an address that a gateway does not connect to, is refused here too; but an
// object that was so before may still be changed.
func TestErrorsOfTheCheckRefuse(t *testing.T) {
	asked := 0
	h := Handler(Config{Log: slog.New(slog.DiscardHandler), Check: func(_ context.Context, o config.Object) []admission.Finding {
		asked++
		return []admission.Finding{{Severity: admission.Error, Key: o.Key, Field: "spec.endpoints", Message: "is not a public address", Fix: fmt.Sprintf("write another, as at moment %d", asked)}}
	}})
	const object = `{"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": {"name": "a", "namespace": "shop"},
		"spec": {"hosts": ["a.com"], "resolution": "DNS", "ports": [{"number": 443, "name": "tls", "protocol": "TLS"}]}}`
	created := send(t, h, admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)}})
	if created.Allowed || !strings.Contains(created.Result.Message, "is not a public address") {
		t.Errorf("%+v", created)
	}
	updated := send(t, h, admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: []byte(object)}, OldObject: runtime.RawExtension{Raw: []byte(object)},
	})
	if !updated.Allowed || len(updated.Warnings) == 0 {
		t.Errorf("%+v", updated)
	}
}
