package tunnels

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/xds/wire"
)

// Asker asks an egress gateway's table by its Envoy's socket.
type Asker struct {
	client *http.Client
}

// NewAsker asks by the socket at a path. It connects when it asks, and again when Envoy has gone meanwhile.
func NewAsker(path string) *Asker {
	var dialer net.Dialer
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) },
		Protocols:   new(http.Protocols), DisableCompression: true, IdleConnTimeout: idle,
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &Asker{&http.Client{Transport: transport}}
}

// Close lets its connection go.
func (a *Asker) Close() { a.client.CloseIdleConnections() }

const (
	// idle is how long its connection is kept without a question.
	idle = 5 * time.Second
	// asked is the path of questions: of gRPC, in which Envoy puts them.
	asked = "http://table/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	// mostAnswer is how long an answer may be, in bytes.
	mostAnswer = 64 << 10
)

// Ask has the shape of Config.Ask. What cannot be asked about is denied.
func (a *Asker) Ask(ctx context.Context, q envoylog.Question) (envoylog.Answer, error) {
	method := http.MethodPost
	if q.Kind == wire.KindHTTP {
		method = q.Method
	}
	req, err := http.NewRequestWithContext(ctx, method, asked, nil)
	if err != nil {
		return envoylog.Answer{}, err
	}
	req.Host = q.Authority
	valid := httpguts.ValidHostHeader(q.Authority) && q.Authority != ""
	if q.Kind == wire.KindHTTP {
		req.URL.Opaque = req.URL.Scheme + "://" + q.Authority + q.Path // so that it is sent as it is, whatever it begins with
	}
	q.Header(func(name, value string) {
		valid = valid && httpguts.ValidHeaderFieldValue(value)
		req.Header.Set(name, value)
	})
	if !valid {
		return envoylog.Answer{Denied: true, Why: "nobody can be asked about its name any more"}, nil
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return envoylog.Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	switch {
	case err != nil:
		return envoylog.Answer{}, err
	case resp.StatusCode >= http.StatusBadRequest && resp.StatusCode < http.StatusInternalServerError:
		return envoylog.Answer{Denied: true, Why: "the gateway takes nothing like it any more"}, nil
	case resp.StatusCode != http.StatusOK:
		return envoylog.Answer{}, fmt.Errorf("status %d", resp.StatusCode)
	}
	return envoylog.ReadAnswer(string(body))
}
