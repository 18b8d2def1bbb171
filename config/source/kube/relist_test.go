package kube

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestRelistIsNoOlder: a server that came back gives no watch from the version that a client saw last, and, asked for a list in pages of that version, what there was then. A
// client that takes no newer one would stay there.
func TestRelistIsNoOlder(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		list := func(version int, objects ...int) {
			var items [][]byte
			for _, n := range objects {
				items = append(items, wire(n))
			}
			_, _ = fmt.Fprintf(w, `{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntryList","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, bytes.Join(items, []byte(",")))
		}
		switch version := q.Get("resourceVersion"); {
		case q.Get("sendInitialEvents") == "true":
			http.Error(w, "no watch-list here", http.StatusBadRequest)
		case q.Get("watch") == "true" && version == "298":
			_, _ = fmt.Fprint(w, `{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old resource version: 298 (299)"}}`+"\n")
		case q.Get("watch") == "true":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case version == "298" && q.Get("resourceVersionMatch") == "NotOlderThan":
			list(305, 1, 2)
		default:
			list(298, 1)
		}
	}))
	defer server.Close()

	s, stop := reflected(t, server.URL)
	defer stop()
	there := 0
	eventually(t, "what came while the server was away is there", func() bool {
		there += len(s.collect().changes)
		return there == 2
	})
}
