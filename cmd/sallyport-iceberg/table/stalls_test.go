package table

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/lake/place"
)

// TestCatalogStalls: a catalog that begins to answer, and says no more, makes a pass fail.
func TestCatalogStalls(t *testing.T) {
	over := make(chan struct{})
	catalog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(catalog.Close)
	t.Cleanup(func() { close(over) })
	at, err := place.Parse(t.TempDir(), place.Access{})
	if err != nil {
		t.Fatal(err)
	}
	k, err := New(Options{Lake: at, Catalog: Catalog{URL: catalog.URL}, Table: "a.b", Most: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("%v", err)
	}
}
