package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// page is what the server outside answers: 1 KiB.
var page = bytes.Repeat([]byte("sixteen bytes..\n"), 64)

// upstream serves TLS at the address until the context ends, with a certificate and key from files.
func upstream(ctx context.Context, addr, cert, key string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("the server's certificate: %w", err)
	}
	server := &http.Server{
		Addr: addr, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = contentType
			_, _ = w.Write(page)
		}),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

var contentType = []string{"text/plain"}
