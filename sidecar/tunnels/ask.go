package tunnels

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/wire"
)

// Asker asks tables, an egress gateway's one or those of what leaves elsewhere, by their Envoy's socket.
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

// Ask has the shape of Config.Ask. What cannot be asked about is denied. A port's table is there as long as something is registered at the port: after that there is the one for all
// others.
func (a *Asker) Ask(ctx context.Context, q envoylog.Question) (envoylog.Answer, error) {
	answer, found, err := a.ask(ctx, q)
	if !found && err == nil && q.Table != "" && q.Table != wire.CatchAllDecide {
		q.Table = wire.CatchAllDecide
		answer, _, err = a.ask(ctx, q)
	}
	return answer, err
}

// AskAtPod is Ask at a sidecar. What it asks about a request there policies alone answer; if they let it, the table of its port is asked whether anything is registered there still for its host. A row
// answers about TLS, and that it is registered for something else says enough. What a rule lets out is nobody's to register.
func (a *Asker) AskAtPod(ctx context.Context, q envoylog.Question) (envoylog.Answer, error) {
	port, bad := strconv.ParseUint(q.Authority[strings.LastIndexByte(q.Authority, ':')+1:], 10, 16)
	if bad != nil {
		return a.Ask(ctx, q)
	}
	return a.askBoth(ctx, q, wire.DecideName(uint32(port)))
}

// AskAtNode is AskAtPod where a port may have several tables: Envoy says which one is that of the request's pod. Where it says none, since the controller has it say none, policies alone answer.
func (a *Asker) AskAtNode(ctx context.Context, q envoylog.Question) (envoylog.Answer, error) {
	if q.PortTable == "" {
		return a.Ask(ctx, q)
	}
	return a.askBoth(ctx, q, q.PortTable)
}

// AskAtWaypoint is Ask at a waypoint: its table answers for what is for a host outside, of requests, too, by all policies. Where the waypoint does not stand before the host any more, policies of clients
// alone are asked: whether the host is registered its egress gateway says.
func (a *Asker) AskAtWaypoint(ctx context.Context, q envoylog.Question) (envoylog.Answer, error) {
	if q.PortTable != "" {
		q.Table = q.PortTable
	}
	answer, found, err := a.ask(ctx, q)
	if !found && err == nil && q.Table != "" {
		q.Table = ""
		answer, _, err = a.ask(ctx, q)
	}
	return answer, err
}

// askBoth asks policies, and then a table.
func (a *Asker) askBoth(ctx context.Context, q envoylog.Question, table string) (envoylog.Answer, error) {
	answer, err := a.Ask(ctx, q)
	if err != nil || answer.Denied || q.Kind != wire.KindHTTP || q.Outside != wire.Leaves {
		return answer, err
	}
	q.Kind, q.Outside, q.Method, q.Path, q.Table = wire.KindTLS, "", "", "", table
	there, err := a.Ask(ctx, q)
	if err == nil && there.Gone {
		return there, nil
	}
	return answer, err
}

// ask asks once; found says whether there is whom it asks.
func (a *Asker) ask(ctx context.Context, q envoylog.Question) (answer envoylog.Answer, found bool, err error) {
	method := http.MethodPost
	if q.Kind == wire.KindHTTP {
		method = q.Method
	}
	req, err := http.NewRequestWithContext(ctx, method, asked, nil)
	if err != nil {
		return envoylog.Answer{}, true, err
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
	for name, value := range map[string]string{ondemand.TableHeader: q.Table, ondemand.ToHeader: q.Dialled, ondemand.RangeHeader: q.Range} {
		if valid = valid && httpguts.ValidHeaderFieldValue(value); value != "" {
			req.Header.Set(name, value)
		}
	}
	if !valid {
		return envoylog.Answer{Denied: true, Why: "nobody can be asked about its name any more"}, true, nil
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return envoylog.Answer{}, true, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	switch {
	case err != nil:
		return envoylog.Answer{}, true, err
	case resp.StatusCode >= http.StatusBadRequest && resp.StatusCode < http.StatusInternalServerError:
		return envoylog.Answer{Denied: true, Why: "the proxy takes nothing like it any more"}, resp.StatusCode != http.StatusNotFound, nil
	case resp.StatusCode != http.StatusOK:
		return envoylog.Answer{}, true, fmt.Errorf("status %d", resp.StatusCode)
	}
	answer, err = envoylog.ReadAnswer(string(body))
	return answer, true, err
}
