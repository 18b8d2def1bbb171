package appprobe

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// serveHook performs a hook. To a kubelet whatever has a status is done, so of one that was not performed the connection ends. It is not kept either: where a kept one ends, a
// kubelet's client asks once more. A hook has the time that the kubelet gives it, who ends the connection; one that everybody may call has its turn, and what the variable says.
func (h *handler) serveHook(w http.ResponseWriter, r *http.Request) {
	hook, listed := h.probes[r.URL.Path]
	if !listed {
		h.log.Debug("a hook was asked for that the pod does not have")
		panic(http.ErrAbortHandler)
	}
	ctx := r.Context()
	if !secret(r.URL.Path) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within(hook))
		defer cancel()
		select {
		case h.hooks <- struct{}{}:
			defer func() { <-h.hooks }()
		case <-ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
	status, err := h.hook(ctx, hook)
	if err != nil {
		h.log.Debug("a hook of the application failed", "hook", nameOf(r.URL.Path), "err", err)
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Connection", "close")
	w.WriteHeader(status)
}

// hook performs a hook as a kubelet does: an answer is an answer however it ends, and an app of HTTP that should be asked by HTTPS is asked by HTTP, without its credentials.
func (h *handler) hook(ctx context.Context, p Probe) (int, error) {
	if p.HTTPGet == nil {
		return h.perform(ctx, p)
	}
	status, err := h.get(ctx, p.HTTPGet)
	if errors.Is(err, http.ErrSchemeMismatch) {
		plain := *p.HTTPGet
		plain.Scheme = "HTTP"
		plain.Headers = slices.DeleteFunc(slices.Clone(plain.Headers), func(header Header) bool { return strings.EqualFold(header.Name, "Authorization") })
		status, err = h.get(ctx, &plain)
	}
	if status != 0 {
		err = nil
	}
	return status, err
}

// secret says whether a hook's path has what nobody can guess, after the container's name and the hook's. Those of pods that were injected before that was so lack it.
func secret(path string) bool {
	return strings.Count(strings.TrimPrefix(path, LifecyclePrefix), "/") == 2
}

// nameOf is what of a path may be known.
func nameOf(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, LifecyclePrefix), "/")
	return strings.Join(parts[:min(len(parts), 2)], "/")
}
