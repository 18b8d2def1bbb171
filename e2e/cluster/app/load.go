package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// loaded is a line of what load tells: how many requests were made so far, and which failed since the line before.
type loaded struct {
	Requests int      `json:"requests"`
	Failures []string `json:"failures,omitempty"` // each with when it began, and how long it took
}

const (
	loadPause = 50 * time.Millisecond  // between two requests
	loadTell  = 250 * time.Millisecond // between two lines
)

// load makes requests one after another as long as its caller reads, and tells of them in lines of JSON. The query is
//
//	url      what to ask, by POST: nothing is sent again by a client that does not know whether it arrived
//	keep     "1": over one connection, as long as the server keeps it; otherwise each over its own
//	has      what a body must have in it, if given
//	timeout  of each request, "10s" if empty
func load(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	timeout, err := timeoutOf(q)
	if err != nil || q.Get("url") == "" {
		http.Error(w, fmt.Sprintf("url %q, timeout: %v", q.Get("url"), err), http.StatusBadRequest)
		return
	}
	transport := &http.Transport{DisableKeepAlives: q.Get("keep") != "1", MaxIdleConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	ask := func() error {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		return post(ctx, transport, q.Get("url"), q.Get("has"))
	}
	tick, told, now := time.NewTicker(loadPause), time.Time{}, loaded{}
	defer tick.Stop()
	for r.Context().Err() == nil {
		began := time.Now()
		err := ask()
		if r.Context().Err() != nil {
			return // the request was given up with its caller
		}
		if now.Requests++; err != nil {
			now.Failures = append(now.Failures, fmt.Sprintf("%s (%s): %v", began.UTC().Format("15:04:05.000"), time.Since(began).Round(time.Millisecond), err))
		}
		if len(now.Failures) > 0 || time.Since(told) > loadTell {
			if json.NewEncoder(w).Encode(now) != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			told, now.Failures = time.Now(), nil
		}
		select {
		case <-r.Context().Done():
		case <-tick.C:
		}
	}
}

// post makes one request, whose answer must be 200.
func post(ctx context.Context, t http.RoundTripper, url, has string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("x"))
	if err != nil {
		return err
	}
	request.GetBody = nil // else Go sends it again where nothing of it was written
	response, err := t.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK || !strings.Contains(string(body), has):
		return fmt.Errorf("%s: %.300s", response.Status, body)
	}
	return nil
}
