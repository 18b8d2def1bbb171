package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	defaultTimeout = 10 * time.Second
	maxBody        = 64 << 10 // bytes of an answer that are reported
)

// fetched is what came of a request. Status is 0 when there was no answer; then Error says why.
type fetched struct {
	Status   int         `json:"status"`
	Proto    string      `json:"proto,omitempty"`
	Headers  http.Header `json:"headers,omitempty"`
	Body     string      `json:"body,omitempty"`
	Remote   string      `json:"remote,omitempty"` // ip:port that was connected to
	PeerName string      `json:"peerName,omitempty"`
	PeerURIs []string    `json:"peerURIs,omitempty"`
	Millis   int64       `json:"millis"`
	Error    string      `json:"error,omitempty"`
}

// fetch makes the request that the query describes:
//
//	url       what to get, http:// or https://
//	method    GET if empty
//	host      Host header (authority), if not the URL's
//	header    "Name: value", may be repeated
//	body      sent with the request
//	connect   ip:port to connect to, whatever the URL says
//	sni       server name in the TLS handshake and to verify, if not the URL's
//	ca        file with the roots to verify against, instead of the system's
//	insecure  "1": verify nothing
//	http2     "1": offer HTTP/2
//	h2c       "1": speak HTTP/2 without TLS
//	proxy     URL of a forward proxy
//	timeout   "10s" if empty
//
// A redirect is reported, not followed. Every call opens a connection of its own.
func fetch(r *http.Request) (fetched, error) {
	q := r.URL.Query()
	timeout, err := timeoutOf(q)
	if err != nil {
		return fetched{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	var result fetched
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { result.Remote = c.Conn.RemoteAddr().String() }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), q.Get("method"), q.Get("url"), strings.NewReader(q.Get("body")))
	if err != nil {
		return fetched{}, err
	}
	request.Host = q.Get("host")
	for _, h := range q["header"] {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return fetched{}, fmt.Errorf("header %q: want NAME: VALUE", h)
		}
		request.Header.Add(name, strings.TrimSpace(value))
	}
	transport, err := transportOf(q)
	if err != nil {
		return fetched{}, err
	}
	defer transport.CloseIdleConnections()

	began := time.Now()
	response, err := transport.RoundTrip(request)
	result.Millis = time.Since(began).Milliseconds()
	if err != nil {
		result.Error = err.Error()
		return result, nil
	}
	defer func() { _ = response.Body.Close() }()
	result.Status, result.Proto, result.Headers = response.StatusCode, response.Proto, response.Header
	if response.TLS != nil && len(response.TLS.PeerCertificates) > 0 {
		peer := response.TLS.PeerCertificates[0]
		result.PeerName = peer.Subject.CommonName
		for _, uri := range peer.URIs {
			result.PeerURIs = append(result.PeerURIs, uri.String())
		}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	result.Body = string(body)
	if err != nil {
		result.Error = err.Error()
	}
	return result, nil
}

func transportOf(q url.Values) (*http.Transport, error) {
	t := &http.Transport{
		TLSClientConfig:   &tls.Config{ServerName: q.Get("sni"), InsecureSkipVerify: q.Get("insecure") == "1"},
		DisableKeepAlives: q.Get("http2") != "1", ForceAttemptHTTP2: q.Get("http2") == "1",
	}
	if q.Get("h2c") == "1" {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	if addr := q.Get("connect"); addr != "" {
		t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	}
	if proxy := q.Get("proxy"); proxy != "" {
		u, err := url.Parse(proxy)
		if err != nil {
			return nil, err
		}
		t.Proxy = http.ProxyURL(u)
	}
	if path := q.Get("ca"); path != "" {
		roots, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("%s holds no certificate", path)
		}
	}
	return t, nil
}

// getUntil makes a request until the answer is 200.
func getUntil(ctx context.Context, url string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s: %s", url, response.Status)
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

func timeoutOf(q url.Values) (time.Duration, error) {
	if q.Get("timeout") == "" {
		return defaultTimeout, nil
	}
	return time.ParseDuration(q.Get("timeout"))
}
