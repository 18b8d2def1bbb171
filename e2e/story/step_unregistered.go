package story

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// allowAny: nobody registered the host, it is reached from the pod's own address, and the log has its name.
func allowAny(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	if _, err := s.policy(ctx, "ALLOW_ANY"); err != nil {
		return err
	}
	before, err := s.passedThrough(ctx)
	if err != nil {
		return err
	}
	for _, scheme := range []string{"http", "https"} {
		path := "/" + token()
		reply, err := s.get(ctx, s.url(scheme, unregisteredHost, path))
		if err != nil {
			return err
		}
		if err := reply.must(); err != nil {
			return err
		}
		seen, err := s.sawOnce(path)
		if err != nil {
			return err
		}
		if seen.Scheme != scheme {
			return fmt.Errorf("the server saw %s, want what the app said: %s", seen, scheme)
		}
		if err := s.cameFrom(seen, s.app.addr); err != nil {
			return err
		}
		s.show("server: %s, the pod's own address", seen)
		w := want{
			what: "the " + scheme + " connection to an unregistered host", host: unregisteredHost,
			verdict: record.Allowed, path: record.PathPassthrough, reporter: record.ReporterSidecar, cluster: "PassthroughCluster",
		}
		if scheme == "http" {
			w.urlPath, w.status = path, 200
		}
		r, err := s.audited(ctx, s.expect(w))
		if err != nil {
			return err
		}
		s.show("%s", line(r))
	}
	after, err := s.passedThrough(ctx)
	if err != nil {
		return err
	}
	if after == before { // HTTP may use a connection again that is open, TLS cannot
		return fmt.Errorf("PassthroughCluster counts %d connections as before", after)
	}
	s.show("its proxy: PassthroughCluster.upstream_cx_total %d → %d", before, after)
	return nil
}

// passedThrough is how many connections the application's proxy has led straight outside.
func (s *Scene) passedThrough(ctx context.Context) (uint64, error) {
	return s.proxy().stat(ctx, `^cluster.PassthroughCluster.upstream_cx_total$`, "upstream_cx_total")
}

// registryOnly: the same host is closed, the outside hears nothing, and the log has its name all the same.
func registryOnly(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	took, err := s.policy(ctx, "REGISTRY_ONLY")
	if err != nil {
		return err
	}
	if s.Namespaced() {
		s.show("mesh settings rewritten: in force after %s", took.Round(10*time.Millisecond))
	}
	connections := s.Outside.ConnectionsTo(s.unregistered)
	path := "/" + token()
	if err := s.closedHTTP(ctx, path); err != nil {
		return err
	}
	if err := s.closedHTTPS(ctx, unregisteredHost); err != nil {
		return err
	}
	if now := s.Outside.ConnectionsTo(s.unregistered); now != connections {
		return fmt.Errorf("%d connections reached the unregistered server", now-connections)
	}
	s.show("server: no connection")
	if err := s.unknownName(ctx); err != nil {
		return err
	}
	for _, w := range []want{
		{
			what: "the refused http request", host: unregisteredHost, urlPath: path, status: s.refusal(),
			verdict: record.Denied, path: record.PathBlackhole, reporter: record.ReporterSidecar,
		},
		{
			what: "the closed https connection", host: unregisteredHost,
			verdict: record.Denied, path: record.PathBlackhole, reporter: record.ReporterSidecar,
		},
	} {
		r, err := s.audited(ctx, s.expect(w))
		if err != nil {
			return err
		}
		s.show("%s", line(r))
	}
	return s.stillOpen(ctx)
}

// refusal is the HTTP status for what nobody registered: Istio's from a sidecar, a proxy's from `sallyport up`.
func (s *Scene) refusal() uint32 {
	if s.Namespaced() {
		return http.StatusBadGateway
	}
	return http.StatusForbidden
}

// unknownName: the pod's DNS says at once that there is no such name, asks nobody, and the log has it.
func (s *Scene) unknownName(ctx context.Context) error {
	if !s.Namespaced() { // a forward proxy is given names
		return nil
	}
	asked := func() int {
		return len(s.Outside.Queries(func(q outside.Query) bool { return q.Name == unregisteredHost }))
	}
	var took time.Duration
	if err := world.Within(ctx, time.Minute, func() error { // who asks the outside, or waits for somebody, does so each time
		before, began := asked(), time.Now()
		if err := s.refusedName(ctx); err != nil {
			return err
		}
		took = time.Since(began)
		if now := asked(); now != before || took > 2*time.Second {
			return fmt.Errorf("after %s the pod's DNS refused the name, and had asked the outside %d times; want it at once and never", took, now-before)
		}
		return nil
	}); err != nil {
		return err
	}
	r, err := s.audited(ctx, s.expect(want{
		what: "the refused name", dns: true, host: unregisteredHost,
		verdict: record.Denied, path: record.PathBlackhole, reporter: record.ReporterSidecar,
	}))
	if err != nil {
		return err
	}
	s.show("app: %s is no name, said after %s; the outside's name server was not asked", unregisteredHost, took.Round(time.Millisecond))
	s.show("%s", line(r))
	return nil
}

// refusedName looks the unregistered host up in the pod.
func (s *Scene) refusedName(ctx context.Context) error {
	reply, err := s.get(ctx, s.url("http", unregisteredHost, "/"))
	if err == nil && reply.Exit != noSuchName {
		err = fmt.Errorf("want that there is no such name, got %s", reply)
	}
	return err
}

// closedHTTP makes a plain request that must be refused.
func (s *Scene) closedHTTP(ctx context.Context, path string) error {
	reply, err := s.get(ctx, s.url("http", unregisteredHost, path), s.known()...)
	if err != nil {
		return err
	}
	if reply.Exit != 0 || reply.Status != int(s.refusal()) {
		return fmt.Errorf("want status %d, got %s", s.refusal(), reply)
	}
	s.show("app: curl %s → %d", s.url("http", unregisteredHost, "/"), reply.Status)
	if s.Namespaced() {
		return nil
	}
	return s.helpful(reply.Body)
}

// helpful: a refusal by the forward proxy names the host and the way to allow it.
func (s *Scene) helpful(body string) error {
	if !strings.Contains(body, unregisteredHost) || !strings.Contains(body, "ServiceEntry") {
		return fmt.Errorf("the refusal names not both the host and the way to allow it: %s", excerpt(body))
	}
	s.show("proxy: %s", excerpt(body))
	return nil
}

// closedHTTPS makes a TLS connection that must be closed before the handshake.
func (s *Scene) closedHTTPS(ctx context.Context, host string) error {
	reply, err := s.get(ctx, s.url("https", host, "/"), s.known()...)
	if err != nil {
		return err
	}
	if reply.Exit == 0 || reply.Status != 0 {
		return fmt.Errorf("want a closed connection, got %s", reply)
	}
	if s.Namespaced() {
		s.show("app: curl %s → closed (curl %d)", s.url("https", host, "/"), reply.Exit)
		return nil
	}
	if reply.ConnectStatus != http.StatusForbidden {
		return fmt.Errorf("want 403 to CONNECT, got %d (%s)", reply.ConnectStatus, reply)
	}
	s.show("app: curl %s → CONNECT refused with 403", s.url("https", host, "/"))
	body, err := s.connectRefusal(ctx, host)
	if err != nil {
		return err
	}
	return s.helpful(body)
}

// connectRefusal reads what curl does not show: the body of the answer to CONNECT.
func (s *Scene) connectRefusal(ctx context.Context, host string) (string, error) {
	c, err := (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "tcp", s.Up.proxyAddr)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	target := net.JoinHostPort(host, strconv.Itoa(int(s.Outside.HTTPSPort)))
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		return "", err
	}
	// As if to a GET: the answer that refuses a CONNECT has a body like any other (RFC 9110, 9.3.6).
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return string(body), err
}

// stillOpen: what is registered goes on.
func (s *Scene) stillOpen(ctx context.Context) error {
	for _, scheme := range []string{"http", "https"} {
		reply, err := s.get(ctx, s.url(scheme, externalHost, "/"))
		if err == nil {
			err = reply.must()
		}
		if err != nil {
			return fmt.Errorf("the registered host: %w", err)
		}
	}
	return nil
}

// policyWithin is how long new settings may take from the file to the traffic, on a machine with much else to do.
const policyWithin = 2 * time.Minute

// policy switches what happens to unregistered hosts and waits until requests show it. `sallyport up` knows one
// policy only, REGISTRY_ONLY.
func (s *Scene) policy(ctx context.Context, mode string) (took time.Duration, err error) {
	if !s.Namespaced() {
		return 0, nil
	}
	began := time.Now()
	if err := s.Controller.setPolicy(mode); err != nil {
		return 0, err
	}
	err = world.Within(ctx, policyWithin, func() error {
		if mode != "ALLOW_ANY" {
			if err := s.refusedName(ctx); err != nil {
				return fmt.Errorf("the mesh settings say %s: %w", mode, err)
			}
		}
		for _, scheme := range []string{"http", "https"} { // what is read and what is not come by other resources, which need not be there at once
			for _, how := range [][]string{nil, s.known()} {
				reply, err := s.get(ctx, s.url(scheme, unregisteredHost, "/policy"), how...)
				if err != nil {
					return err
				}
				if open := reply.OK(); open != (mode == "ALLOW_ANY") {
					return fmt.Errorf("the mesh settings say %s, but %s", mode, reply)
				}
			}
		}
		return nil
	})
	return time.Since(began), err
}

// controlUp makes sure that the control plane and the pods run, whatever a step before did to them.
func (s *Scene) controlUp(ctx context.Context) error {
	if !s.Namespaced() {
		return nil
	}
	if err := s.Controller.up(ctx); err != nil {
		return err
	}
	if err := s.Gateway.up(ctx); err != nil {
		return err
	}
	if err := s.App.up(ctx); err != nil || s.ambient == nil {
		return err
	}
	return s.ambient.up(ctx)
}
