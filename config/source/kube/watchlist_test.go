package kube

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// TestWatchList streams objects as servers do that have the watch-list; it needs an etcd from 3.4.25 on, so that a
// real one may lack it.
func TestWatchList(t *testing.T) {
	var lists atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/apis/networking.istio.io/v1/serviceentries" || q.Get("watch") != "true" || q.Get("sendInitialEvents") != "true" {
			lists.Add(1)
			http.Error(w, "not this way", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		send := func(kind string, object []byte) {
			_, _ = fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", kind, bytes.ReplaceAll(object, []byte("\n"), nil))
		}
		send("ADDED", wire(1))
		send("ADDED", wire(2))
		send("BOOKMARK", []byte(`{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"creationTimestamp":null,"resourceVersion":"9"},"spec":{}}`))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()

	s, stop := reflected(t, server.URL)
	defer stop()
	eventually(t, "everything is there", func() bool { settled, _ := s.all(true); return settled })
	if got := s.collect(); len(got.changes) != 2 || len(got.judgements) != 2 || lists.Load() != 0 {
		t.Errorf("changes %v, %d other requests", got.changes, lists.Load())
	}
}

// reflected is what a server has of a kind, followed until stop is called.
func reflected(t *testing.T, url string) (s *store, stop func()) {
	t.Helper()
	k := kinds()[0]
	c, err := newClients(&rest.Config{Host: url}, []kind{k})
	if err != nil {
		t.Fatal(err)
	}
	from, err := c.listerWatcher(k, "v1")
	if err != nil {
		t.Fatal(err)
	}
	s = newStore([]kind{k})
	ctx, cancel := contextOf(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.reflect(ctx, k, from, s)
	}()
	return s, func() {
		cancel()
		<-done
		c.http.CloseIdleConnections()
	}
}
