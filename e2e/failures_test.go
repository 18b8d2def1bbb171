package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// failure is one way in which a server, or a client, does not do what it should.
type failure struct {
	port  uint16
	serve func(*failures, *net.TCPConn) // nil: nobody listens
	tls   bool                          // the proxy speaks TLS to the server
	bytes bool                          // it is asked by TCP
	path  string

	status   uint32 // of the record
	said     string // in its reason
	sent     uint64 // bytes towards the client
	received uint64
}

// failuresTried are what is tried, by what happens.
var failuresTried = map[string]failure{
	"another name's certificate": {port: 9702, serve: byTLS(func(w *failures, _ string) (*tls.Certificate, error) {
		return w.scene.Outside.CA.Issue("elsewhere.test")
	}), tls: true,
		status: 503, said: "CERTIFICATE_VERIFY_FAILED", sent: 121},
	"an unknown authority": {port: 9703, serve: byTLS(func(w *failures, name string) (*tls.Certificate, error) { return w.strange.Issue(name) }), tls: true,
		status: 503, said: "CERTIFICATE_VERIFY_FAILED", sent: 121},
	"nobody listens":             {port: 9704, status: 503, said: "Connection_refused", sent: 121},
	"a reset in the answer":      {port: 9705, serve: (*failures).breaksOff, status: 200, said: "; failed: upstream_reset_after_response_started", sent: 10},
	"no answer in time":          {port: 9706, serve: (*failures).saysNothing, path: "/timeout"},
	"its client leaves":          {port: 9707, serve: (*failures).saysNothing, path: "/leaves", said: "; its client left before there was an answer"},
	"a reset before the answer":  {port: 9708, serve: (*failures).resets, status: 503, said: "; failed: upstream_reset_before_response_started", sent: 95},
	"nobody listens, TCP":        {port: 9724, bytes: true, said: "; failed: UF"},
	"a reset in what comes, TCP": {port: 9725, serve: (*failures).breaksOff, bytes: true, said: "; failed: UR", sent: brokenOff, received: 12},
}

const (
	beforeBreak = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n0123456789"
	brokenOff   = uint64(len(beforeBreak))
)

type failures struct {
	ctx     context.Context
	scene   *story.Scene
	strange *outside.CA
	asked   chan struct{} // a server was asked that says nothing
}

func byTLS(certificate func(*failures, string) (*tls.Certificate, error)) func(*failures, *net.TCPConn) {
	return func(w *failures, c *net.TCPConn) {
		secure := tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(w, h.ServerName) }})
		if secure.Handshake() == nil {
			_, _ = io.Copy(io.Discard, secure)
		}
	}
}

func (w *failures) breaksOff(c *net.TCPConn) {
	_, _ = c.Read(make([]byte, 4096))
	_, _ = io.WriteString(c, beforeBreak)
	<-w.asked // it was read
	_ = c.SetLinger(0)
}

func (w *failures) saysNothing(c *net.TCPConn) {
	_, _ = c.Read(make([]byte, 4096))
	select {
	case w.asked <- struct{}{}:
	case <-w.ctx.Done():
	}
	_, _ = io.Copy(io.Discard, c)
}

func (w *failures) resets(c *net.TCPConn) {
	_, _ = c.Read(make([]byte, 4096))
	_ = c.SetLinger(0)
}

// TestFailuresAreRecordedOnce: whatever goes wrong with a request or a connection, there is one record of it, which says whose it was, where it went, what was carried and
// what went wrong.
func TestFailuresAreRecordedOnce(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	w := &failures{ctx: ctx, scene: s, asked: make(chan struct{})}
	var err error
	if w.strange, err = outside.NewCA(); err != nil {
		t.Fatal(err)
	}
	w.serve(t)
	for _, way := range []string{"gateway", "straight"} {
		host := way + ".failures.test"
		if _, err := appOf(s).answered(ctx, host); err != nil {
			t.Fatal(err)
		}
		for what, f := range failuresTried {
			t.Run(way+"/"+what, func(t *testing.T) {
				f.path = cmp.Or(f.path, "/asked")
				if what == "no answer in time" && way == "straight" { // the gateway sees its client leave
					f.status, f.said, f.sent = 504, "; failed: response_timeout", 24
				} else if what == "no answer in time" {
					f.said = "; its client left before there was an answer"
				}
				if err := w.ask(host, f); err != nil {
					t.Fatal(err)
				}
				w.recorded(t, host, f, way)
			})
		}
		t.Run(way+"/no such name", func(t *testing.T) {
			f := failure{port: 9704, path: "/nobody", status: 503, said: "; failed: no_healthy_upstream", sent: 19}
			host := "gone." + host
			if _, err := appOf(s).answered(ctx, host); err != nil {
				t.Fatal(err)
			}
			if err := w.ask(host, f); err != nil {
				t.Fatal(err)
			}
			w.recorded(t, host, f, way)
		})
	}
}

// serve starts the servers, and registers them by the gateway and straight.
func (w *failures) serve(t *testing.T) {
	t.Helper()
	addOther(w.ctx, t, w.scene)
	var ports, secured strings.Builder
	for what, f := range failuresTried {
		protocol := "HTTP"
		if f.bytes {
			protocol = "TCP"
		}
		fmt.Fprintf(&ports, "  - {number: %d, name: %s-%d, protocol: %s}\n", f.port, strings.ToLower(protocol), f.port, protocol)
		if f.tls {
			fmt.Fprintf(&secured, "    - {port: {number: %d}, tls: {mode: SIMPLE}}\n", f.port)
		}
		if f.serve == nil {
			continue
		}
		l, err := w.scene.World.Outside.Listen(netip.AddrPortFrom(otherAddr, f.port).String())
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		serveEach(t, l, func(c net.Conn) { f.serve(w, c.(*net.TCPConn)) })
	}
	var objects strings.Builder
	for way, gateway := range map[string]string{"gateway": "istio-system/istio-egressgateway", "straight": "direct"} {
		w.scene.Outside.Set(way+".failures.test", time.Minute, otherAddr)
		for _, host := range []string{way + ".failures.test", "gone." + way + ".failures.test"} { // nobody knows the address of the second
			fmt.Fprintf(&objects, `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]q, namespace: default, annotations: {egress.sallyport.io/gateway: %[2]s}}
spec:
  hosts: [%[1]q]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
%[3]s---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %[1]q, namespace: default}
spec:
  host: %[1]q
  trafficPolicy:
    portLevelSettings:
%[4]s---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %[1]q, namespace: default}
spec:
  hosts: [%[1]q]
  http: [{match: [{port: 9706}], timeout: 6s, route: [{destination: {host: %[1]q, port: {number: 9706}}}]}]
`, host, gateway, ports.String(), secured.String())
		}
	}
	if err := w.scene.Config.Write("failures.yaml", objects.String()); err != nil {
		t.Fatal(err)
	}
}

// ask asks once, as the app, and goes on when it has come to its end.
func (w *failures) ask(host string, f failure) error {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	app := appOf(w.scene)
	addr, err := app.resolve(ctx, host)
	if err != nil {
		return err
	}
	c, err := app.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, f.port).String())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	text := "hello there\n"
	if !f.bytes {
		text = fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\n\r\n", f.path, host, f.port)
	}
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	switch {
	case f.path == "/leaves":
		return w.wait(ctx)
	case f.path == "/timeout":
		if err := w.wait(ctx); err != nil {
			return err
		}
	case f.sent == 10 || f.sent == brokenOff:
		if err := readUpTo(c, "0123456789"); err != nil {
			return err
		}
		select {
		case w.asked <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err = io.Copy(io.Discard, c)
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		return fmt.Errorf("it did not end: %w", err)
	}
	return nil
}

func (w *failures) wait(ctx context.Context) error {
	select {
	case <-w.asked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readUpTo reads until a text has come.
func readUpTo(c net.Conn, text string) error {
	var got []byte
	for !strings.Contains(string(got), text) {
		b := make([]byte, 256)
		n, err := c.Read(b)
		if got = append(got, b[:n]...); err != nil {
			return fmt.Errorf("%q came: %w", got, err)
		}
	}
	return nil
}

// recorded holds that there is one record of it, once there is one of what was asked later.
func (w *failures) recorded(t *testing.T, host string, f failure, way string) {
	t.Helper()
	var of []record.Record
	settled := func() error {
		records, err := w.scene.AuditRecords(w.ctx, "--host", host)
		of = slices.DeleteFunc(records, func(r record.Record) bool {
			return r.Port != uint32(f.port) || r.Class == record.DNS || strings.HasPrefix(r.URLPath, "/later/")
		})
		if err == nil && len(of) == 0 {
			err = errors.New("there is none")
		}
		return err
	}
	if err := world.Within(w.ctx, 2*time.Minute, settled); err != nil {
		t.Fatal(err)
	}
	w.later(t)
	if err := settled(); err != nil || len(of) != 1 {
		for _, r := range of {
			t.Logf("%+v", r)
		}
		t.Fatalf("there are %d records of it (%v), want 1", len(of), err)
	}
	r, reporter := of[0], record.ReporterGateway
	if way == "straight" {
		reporter = record.ReporterSidecar
	}
	if r.Verdict != record.Allowed || r.Workload.Principal != appID || r.Reporter != reporter || r.Status != f.status || !strings.HasPrefix(r.Reason, "registered") || !strings.Contains(r.Reason, f.said) ||
		r.BytesSent != f.sent || r.BytesReceived != f.received {
		t.Errorf("%+v, want status %d, %q, %d bytes sent and %d received", r, f.status, f.said, f.sent, f.received)
	}
	if to := netip.AddrPortFrom(otherAddr, f.port).String(); r.Destination != to && !strings.HasPrefix(host, "gone.") {
		t.Errorf("the destination is %q, want %q", r.Destination, to)
	}
}

// later asks for something else by both ways, and waits for its records: those of both proxies from before have come then.
func (w *failures) later(t *testing.T) {
	t.Helper()
	mark := fmt.Sprintf("/later/%d", time.Now().UnixNano())
	for host, reporter := range map[string]string{"gateway.failures.test": record.ReporterGateway, "straight.failures.test": record.ReporterSidecar} {
		if _, _, err := appOf(w.scene).get(w.ctx, time.Minute, host, 9708, mark, http.Header{}); err != nil {
			t.Fatal(err)
		}
		if err := world.Within(w.ctx, 2*time.Minute, func() error {
			records, err := w.scene.AuditRecords(w.ctx, "--host", host)
			if err == nil && !slices.ContainsFunc(records, func(r record.Record) bool { return r.URLPath == mark && r.Reporter == reporter }) {
				err = fmt.Errorf("no record of %s%s", host, mark)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
