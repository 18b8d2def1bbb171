package ender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

const (
	// patience is how long a request may take to come, or to be answered.
	patience = 5 * time.Second
	// mostRequest is how long one may be, in bytes.
	mostRequest = 1 << 10
	// socketMode lets the socket's group ask: the pod's fsGroup.
	socketMode = 0o660
)

// Server ends connections.
type Server struct {
	Log   *slog.Logger
	Ports []uint16 // of this network namespace, whose connections may be ended
	End   func(sockdiag.Connection) error
	Can   func() error // why none can be ended, as for a process without the right to
}

// Listen makes the socket, in the place of one that a former process left.
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("socket %q: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket %q: %w", path, err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("socket %q: %w", path, err), l.Close())
	}
	return l, nil
}

// Serve takes requests until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: time.Minute, MaxHeaderBytes: 4 << 10}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP ends a connection that is posted: 204; 404 where it has ended; 403 where it is none of those that may be. Who gets learns whether any
// can be ended: 204, or 501 with the reason.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		s.end(w, r)
	case http.MethodGet:
		if err := s.Can(); err != nil {
			http.Error(w, err.Error(), http.StatusNotImplemented)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (s *Server) end(w http.ResponseWriter, r *http.Request) {
	var c sockdiag.Connection
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostRequest)).Decode(&c); err != nil {
		http.Error(w, "the request is no connection: "+err.Error(), http.StatusBadRequest)
		return
	}
	if !slices.Contains(s.Ports, c.Local.Port()) {
		s.Log.Warn("asked to end a connection that is none of the gateway's", "local", c.Local, "remote", c.Remote)
		http.Error(w, fmt.Sprintf("port %d is none of %d, whose connections may be ended", c.Local.Port(), s.Ports), http.StatusForbidden)
		return
	}
	switch err := s.End(c); {
	case err == nil:
		s.Log.Info("a connection is ended", "local", c.Local, "remote", c.Remote)
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, sockdiag.ErrGone):
		http.Error(w, err.Error(), http.StatusNotFound)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
