package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// echoesHTTP2 is the port of a server that speaks HTTP/2 alone, without TLS, as servers of gRPC do: it hears lines, and says them again.
const echoesHTTP2 = 9599

// serveHTTP2 serves it.
func (o *openEnds) serveHTTP2(t *testing.T) {
	t.Helper()
	l, err := o.scene.World.Outside.Listen(netip.AddrPortFrom(world.OutsideAddrs[0], echoesHTTP2).String())
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		out := http.NewResponseController(w)
		_ = out.Flush()
		for lines := bufio.NewReader(r.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if _, err = io.WriteString(w, line); err == nil {
				err = out.Flush()
			}
			if err != nil {
				return
			}
		}
	})}
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	o.registerHost(t, "calls", "calls.open.test", fmt.Sprintf("[{number: %d, name: grpc, protocol: GRPC}]", echoesHTTP2), "DNS")
	o.scene.Outside.Set("calls.open.test", time.Minute, world.OutsideAddrs[0])
}

// calls is one connection of a pod by HTTP/2, which many requests share.
func (o *openEnds) calls(t *testing.T, who string) *http.Client {
	t.Helper()
	c := o.callers[who]
	transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		addr, err := c.resolve(ctx, "calls.open.test")
		if err != nil {
			return nil, err
		}
		return c.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, echoesHTTP2).String())
	}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// call is a request that goes on, and is talked on.
func (o *openEnds) call(t *testing.T, by *http.Client, who, path string) *talk {
	t.Helper()
	k := &talk{what: who + " calls " + path}
	if err := world.Within(o.ctx, time.Minute, func() error {
		in, out := io.Pipe()
		req, err := http.NewRequestWithContext(o.ctx, http.MethodPost, fmt.Sprintf("http://calls.open.test:%d%s", echoesHTTP2, path), in)
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/grpc")
		resp, err := by.Do(req) // the talk's end closes its body
		if err != nil {
			return err
		}
		k.conn, k.in = &called{PipeWriter: out, Body: resp.Body}, bufio.NewReader(resp.Body)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Grpc-Status") != "" {
			return errors.Join(fmt.Errorf("%s %s", resp.Status, resp.Header), k.conn.Close())
		}
		return k.say()
	}); err != nil {
		t.Fatalf("%s: %v", k.what, err)
	}
	t.Cleanup(func() { _ = k.conn.Close() })
	return k
}

// called is a call as a connection that somebody talks on.
type called struct {
	net.Conn
	*io.PipeWriter
	Body io.ReadCloser
}

func (c *called) Write(b []byte) (int, error) { return c.PipeWriter.Write(b) }
func (c *called) SetDeadline(time.Time) error { return nil }
func (c *called) Close() error                { return errors.Join(c.PipeWriter.Close(), c.Body.Close()) }

// upload is a request whose body goes on, by a method that has one or by one that has none; its answer is waited for.
func (o *openEnds) upload(t *testing.T, who, method, path string) *talk {
	t.Helper()
	k := &talk{what: who + " uploads to " + path + " by " + method}
	c := o.callers[who]
	if err := world.Within(o.ctx, time.Minute, func() error {
		addr, err := c.resolve(o.ctx, "talks.open.test")
		if err != nil {
			return err
		}
		if k.conn, err = c.host.DialContext(o.ctx, "tcp", netip.AddrPortFrom(addr, echoesHTTP).String()); err != nil {
			return err
		}
		k.in = bufio.NewReader(k.conn)
		k.send = true
		_, err = fmt.Fprintf(k.conn, "%s %s HTTP/1.1\r\nHost: talks.open.test:%d\r\nTransfer-Encoding: chunked\r\n\r\n", method, path, echoesHTTP)
		return errors.Join(err, k.say())
	}); err != nil {
		t.Fatalf("%s: %v", k.what, err)
	}
	t.Cleanup(func() { _ = k.conn.Close() })
	return k
}

// keeps waits until the gateway keeps policies: what was under way when the first one came goes on.
func (o *openEnds) keeps(t *testing.T) {
	t.Helper()
	c := o.callers["app"]
	if err := world.Within(o.ctx, time.Minute, func() error {
		addr, err := c.resolve(o.ctx, "talks.open.test")
		if err != nil {
			return err
		}
		conn, err := c.host.DialContext(o.ctx, "tcp", netip.AddrPortFrom(addr, echoesHTTP).String())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		k := &talk{conn: conn, in: bufio.NewReader(conn)}
		switch err := k.ask("talks.open.test", "nobody/allows", false); {
		case err == nil:
			return errors.New("what no rule allows is answered")
		case err.Error() != "403 Forbidden":
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// first: where policies are expected, the mesh's first one ends what was under way before there was any.
func (o *openEnds) first(t *testing.T) {
	was, err := os.ReadFile(o.scene.MeshConfig())
	if err != nil {
		t.Fatal(err)
	}
	set := func(text []byte) {
		if err := os.WriteFile(o.scene.MeshConfig(), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set(append(bytes.Clone(was), "  policy: {expected: true}\n"...))
	defer set(was)
	underWay := func() float64 { return o.metric(t, "sallyport_agent_requests_under_way") }
	if err := world.Within(o.ctx, time.Minute, func() error { // the settings are there when it is told of
		k := o.open(t, "app", "http", "talks.open.test/early")
		defer func() { _ = k.conn.Close() }()
		if underWay() == 0 {
			return errors.New("nobody is told of requests under way")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	gone := []*talk{
		o.open(t, "app", "http", "talks.open.test/in/one"), o.open(t, "app", "ws", "talks.open.test/in/ws"), o.upload(t, "app", "POST", "/in/upload"),
	}
	stay := []*talk{o.open(t, "app", "http", "talks.open.test/stays"), o.open(t, "shop", "http", "talks.open.test/in/one")}
	since := time.Now()
	o.write(t, "  rules: [{hosts: [talks.open.test], paths: [/stays], action: Allow}]\n")
	o.end(t, since, gone, stay)
	o.onwards(t, stay)
	if err := o.scene.Config.Remove("policy.yaml"); err != nil {
		t.Fatal(err)
	}
}

// requests: answers, uploads, and calls that share their connections, end each by itself when an edit denies them.
func (o *openEnds) requests(t *testing.T) {
	o.serveHTTP2(t)
	o.registerTalks(t)
	allow := func(paths string) {
		o.write(t, "  rules: [{hosts: [talks.open.test, calls.open.test], paths: ["+paths+"], action: Allow, name: talks}, {hosts: ['*.open.test'], ports: [9596, 9597], action: Allow, name: others}]\n")
	}
	allow("'/in/*', /stays, /upload/stays")
	o.keeps(t)
	app, shop := o.calls(t, "app"), o.calls(t, "shop")
	gone := []*talk{
		o.open(t, "app", "http", "talks.open.test/in/one"), o.open(t, "app", "http", "talks.open.test/in/two"), o.open(t, "app", "ws", "talks.open.test/in/ws"),
		o.call(t, app, "app", "/in/call"), o.upload(t, "app", "POST", "/in/upload"), o.upload(t, "app", "GET", "/in/upload"),
	}
	stay := []*talk{
		o.open(t, "app", "http", "talks.open.test/stays"), o.open(t, "app", "ws", "talks.open.test/stays"), o.open(t, "shop", "http", "talks.open.test/in/one"), o.open(t, "app", "tls", "three.open.test"),
		o.call(t, app, "app", "/stays"), o.call(t, shop, "shop", "/in/call"), o.upload(t, "app", "POST", "/upload/stays"),
	}
	before, beside, since := o.ended(t), o.endedBeside(t), time.Now()
	allow("/stays, /upload/stays")
	o.end(t, since, gone, stay)
	o.onwards(t, stay)
	o.endedThese(t, before, beside, gone)
	for _, path := range []string{"/in/one", "/in/two", "/in/ws", "/in/upload"} {
		o.recordedAsEnded(t, "talks.open.test", path)
	}
	o.recordedAsEnded(t, "calls.open.test", "/in/call")
	since = time.Now()
	if err := o.scene.Config.Remove("open-calls.yaml"); err != nil {
		t.Fatal(err)
	}
	o.end(t, since, []*talk{stay[4], stay[5]}, []*talk{stay[0], stay[1], stay[2], stay[3], stay[6]})
}
