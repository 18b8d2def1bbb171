package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"
)

// The server of these tests reads a body for readsPath alone, and answers hintsPath with hints first (RFC 8297).
const (
	readsPath = "/reads"
	hintsPath = "/hints"
)

// holdsExpect: who asks before it sends a body (Expect: 100-continue, RFC 9110 section 10.1.1) hears "go on" from the server alone. A proxy that says it for itself makes who is denied send all that
// it has, and who would be sent elsewhere send it twice.
func (r hostileRole) holdsExpect(t *testing.T) {
	for path, want := range map[string][]int{
		"/admin/x": {http.StatusForbidden},
		"/public":  {http.StatusOK},
		readsPath:  {http.StatusContinue, http.StatusOK},
		hintsPath:  {http.StatusEarlyHints, http.StatusOK},
	} {
		if got, err := r.asksFirst(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("POST %s that asks whether it may: %d %v, want %d", path, got, err, want)
		}
	}
}

// answersFirst are answers by a server to readsPath and hintsPath before the last one, which it writes.
func answersFirst(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case readsPath:
		_, _ = io.Copy(io.Discard, r.Body)
	case hintsPath:
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
	}
}

// asksFirst sends a request whose body goes only when it hears 100, and returns all statuses that it heard.
func (r hostileRole) asksFirst(path string) (statuses []int, err error) {
	c, err := r.dial()
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	const body = "whole"
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", path, r.authority(r.host), len(body)); err != nil {
		return nil, err
	}
	for in := bufio.NewReader(c); ; {
		status, err := statusOn(in)
		if err != nil {
			return statuses, err
		}
		if statuses = append(statuses, status); status >= http.StatusOK {
			return statuses, nil
		}
		if status != http.StatusContinue {
			continue
		}
		if _, err := c.Write([]byte(body)); err != nil {
			return statuses, err
		}
	}
}
