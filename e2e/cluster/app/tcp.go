package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// exchanged is what came of a connection.
type exchanged struct {
	Connected bool   `json:"connected"`
	Remote    string `json:"remote,omitempty"`
	Received  string `json:"received,omitempty"`
	Error     string `json:"error,omitempty"`
}

// tcp connects to addr (host:port), sends the line send, if given, and receives a line. timeout is 10s if empty.
func tcp(r *http.Request) (exchanged, error) {
	return exchange(r, "tcp", func(c net.Conn, send string) (string, error) {
		if send != "" {
			if _, err := io.WriteString(c, send+"\n"); err != nil {
				return "", err
			}
		}
		line, err := bufio.NewReader(io.LimitReader(c, maxBody)).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return line, err
	})
}

// udp sends the datagram send to addr (host:port) until one comes back. timeout is 10s if empty.
func udp(r *http.Request) (exchanged, error) {
	return exchange(r, "udp", func(c net.Conn, send string) (string, error) {
		buffer := make([]byte, 2048)
		var err error
		for range 5 { // a datagram may be lost
			if _, err = io.WriteString(c, send); err != nil {
				return "", err
			}
			if err = c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				return "", err
			}
			var n int
			if n, err = c.Read(buffer); err == nil {
				return string(buffer[:n]), nil
			}
		}
		return "", err
	})
}

// exchange connects to addr and lets talk say what is sent and received.
func exchange(r *http.Request, network string, talk func(c net.Conn, send string) (string, error)) (exchanged, error) {
	q := r.URL.Query()
	timeout, err := timeoutOf(q)
	if err != nil {
		return exchanged{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, network, q.Get("addr"))
	if err != nil {
		return exchanged{Error: err.Error()}, nil
	}
	defer func() { _ = c.Close() }()
	result := exchanged{Connected: true, Remote: c.RemoteAddr().String()}
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return exchanged{}, err
	}
	result.Received, err = talk(c, q.Get("send"))
	if err != nil {
		result.Error = err.Error()
	}
	return result, nil
}

// resolved is what the pod's resolver said.
type resolved struct {
	Addresses []string `json:"addresses"`
	NotFound  bool     `json:"notFound,omitempty"`
	Error     string   `json:"error,omitempty"`
}

// resolve asks for the addresses of name, through /etc/resolv.conf and its search domains.
func resolve(r *http.Request) (resolved, error) {
	q := r.URL.Query()
	timeout, err := timeoutOf(q)
	if err != nil {
		return resolved{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	addresses, err := (&net.Resolver{PreferGo: true}).LookupHost(ctx, q.Get("name"))
	result := resolved{Addresses: addresses}
	if err != nil {
		var failure *net.DNSError
		result.NotFound = errors.As(err, &failure) && failure.IsNotFound
		result.Error = err.Error()
	}
	return result, nil
}
