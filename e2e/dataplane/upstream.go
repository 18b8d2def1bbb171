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
	server := serves(ctx, addr)
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	return ended(server.ListenAndServeTLS("", ""))
}

// app serves plain HTTP at the address until the context ends.
func app(ctx context.Context, addr string) error { return ended(serves(ctx, addr).ListenAndServe()) }

func serves(ctx context.Context, addr string) *http.Server {
	server := &http.Server{
		Addr: addr, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = contentType
			_, _ = w.Write(page)
		}),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return server
}

func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

var contentType = []string{"text/plain"}
