package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// profile fetches what the controller's profiler says now, of a CPU profile what it says of the next seconds, into a
// file for `go tool pprof`. Without a directory for it, it does nothing.
func (m *measurement) profile(ctx context.Context, kind, name string) error {
	if m.Profiles == "" {
		return nil
	}
	url := "http://" + m.controller.admin + "/debug/pprof/" + kind
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := admin.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	out, err := os.Create(filepath.Join(m.Profiles, fmt.Sprintf("%d-%s.pprof", m.Entries, name)))
	if err != nil {
		return err
	}
	_, err = io.Copy(out, resp.Body)
	return errors.Join(err, out.Close())
}

// profiled runs f and profiles its first seconds.
func (m *measurement) profiled(ctx context.Context, name string, span time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() {
		done <- m.profile(ctx, fmt.Sprintf("profile?seconds=%d", int(span.Seconds())), name)
	}()
	return errors.Join(f(), <-done)
}
