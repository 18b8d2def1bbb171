package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// The health service of gRPC (grpc.health.v1), as HTTP/2 carries it: a message is a flag, four bytes of length, and the
// protobuf.

// serving is HealthCheckResponse{status: SERVING}.
var serving = []byte{0, 0, 0, 0, 2, 0x08, 0x01}

func serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = w.Write(serving)
	w.Header().Set("Grpc-Status", "0")
}

// grpc asks the server at addr (host:port) for its health. Received is "SERVING" when it is well. timeout is 10s if empty.
func grpc(r *http.Request) (exchanged, error) {
	q := r.URL.Query()
	timeout, err := timeoutOf(q)
	if err != nil {
		return exchanged{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+q.Get("addr")+"/grpc.health.v1.Health/Check", bytes.NewReader(make([]byte, 5)))
	if err != nil {
		return exchanged{}, err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return exchanged{Error: err.Error()}, nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	result := exchanged{Connected: true}
	switch status := response.Trailer.Get("Grpc-Status") + response.Header.Get("Grpc-Status"); {
	case err != nil:
		result.Error = err.Error()
	case response.StatusCode != http.StatusOK || status != "0":
		result.Error = fmt.Sprintf("%s, grpc-status %q %s", response.Status, status, body)
	case bytes.Equal(body, serving):
		result.Received = "SERVING"
	default:
		result.Received = fmt.Sprintf("%q", body)
	}
	return result, nil
}
