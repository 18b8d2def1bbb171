package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// rotations is how many times each side's certificate has to change under the traffic: the first ones expire meanwhile.
const rotations = 3

// rotatedWithin is the limit for it, with certificates that live for a minute.
const rotatedWithin = 5 * time.Minute

// TestCertificatesRotateUnderTraffic: certificates of a minute are renewed on both sides of the mTLS connection while
// requests are made on new connections and on kept ones, and while answers without an end are read.
func TestCertificatesRotateUnderTraffic(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.WithController("--cert-ttl", "1m"))
	watched := []*serials{{pod: s.App}, {pod: s.Gateway}}
	if err := each(watched, func(w *serials) error { return w.look(ctx) }); err != nil {
		t.Fatal(err)
	}

	r := &rotation{app: appOf(s), host: "external.com"}
	running, stop := context.WithCancel(ctx)
	defer stop()
	traffic, running := errgroup.WithContext(running)
	traffic.Go(func() error { return r.newConnections(running) })
	for _, scheme := range []string{"http", "https"} {
		traffic.Go(func() error { return r.keptConnection(running, scheme) })
		traffic.Go(func() error { return r.stream(running, scheme) })
	}

	err := world.Within(running, rotatedWithin, func() error {
		return each(watched, func(w *serials) error {
			if err := w.look(running); err != nil {
				return err
			}
			if len(w.seen) <= rotations {
				return fmt.Errorf("%s has shown %d certificates", w.pod.Host().Name, len(w.seen))
			}
			return nil
		})
	})
	stop()
	if failed := traffic.Wait(); failed != nil {
		t.Error(failed)
	}
	if err != nil {
		t.Error(err)
	}
	for _, w := range watched {
		t.Logf("%s: %d certificates: %s", w.pod.Host().Name, len(w.seen), strings.Join(w.seen, ", "))
	}
	t.Logf("%s", r)
}

// serials is what a pod's Envoy has shown for its own certificate.
type serials struct {
	pod  *story.Pod
	seen []string
}

// look notes the serial number of the certificate in use, if it is new.
func (w *serials) look(ctx context.Context) error {
	out, err := w.pod.Admin(ctx, "/certs")
	if err != nil {
		return err
	}
	var body struct {
		Certificates []struct {
			Chain []struct {
				Serial string `json:"serial_number"`
				Names  []struct {
					URI string `json:"uri"`
				} `json:"subject_alt_names"`
			} `json:"cert_chain"`
		}
	}
	if err := json.Unmarshal(out, &body); err != nil {
		return fmt.Errorf("/certs printed %s: %w", out, err)
	}
	for _, c := range body.Certificates {
		for _, cert := range c.Chain {
			workload := len(cert.Names) == 1 && strings.HasPrefix(cert.Names[0].URI, "spiffe://")
			if workload && !slices.Contains(w.seen, cert.Serial) {
				w.seen = append(w.seen, cert.Serial)
			}
		}
	}
	if len(w.seen) == 0 {
		return fmt.Errorf("%s shows no certificate with a SPIFFE id: %s", w.pod.Host().Name, out)
	}
	return nil
}

func each[T any](list []T, f func(T) error) error {
	var errs []error
	for _, x := range list {
		errs = append(errs, f(x))
	}
	return errors.Join(errs...)
}

// rotation is the traffic, and how much of it there was.
type rotation struct {
	app  caller
	host string

	mu                sync.Mutex
	fresh, kept, read int
}

func (r *rotation) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d requests on new connections, %d on two kept ones, %d lines of two answers without an end", r.fresh, r.kept, r.read)
}

func (r *rotation) count(what *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*what++
}

// every calls f at intervals until ctx ends or f fails.
func every(ctx context.Context, interval time.Duration, f func(i int) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for i := 0; ; i++ {
		if err := f(i); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// newConnections asks by HTTP and HTTPS in turn, each time on a new connection.
func (r *rotation) newConnections(ctx context.Context) error {
	return every(ctx, 50*time.Millisecond, func(i int) error {
		conn, err := r.dial(ctx, []string{"http", "https"}[i%2])
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if err := r.ask(conn, bufio.NewReader(conn), "/rotation"); err != nil {
			return fmt.Errorf("request %d on a new connection: %w", i, err)
		}
		r.count(&r.fresh)
		return nil
	})
}

// keptConnection asks again and again on the same connection.
func (r *rotation) keptConnection(ctx context.Context, scheme string) error {
	conn, err := r.dial(ctx, scheme)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	return every(ctx, 100*time.Millisecond, func(i int) error {
		if err := r.ask(conn, in, "/kept"); err != nil {
			return fmt.Errorf("request %d on the kept %s connection: %w", i, scheme, err)
		}
		r.count(&r.kept)
		return nil
	})
}

// stream reads what the server goes on sending.
func (r *rotation) stream(ctx context.Context, scheme string) error {
	conn, err := r.dial(ctx, scheme)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := fmt.Fprintf(conn, "GET %srotation HTTP/1.1\r\nHost: %s\r\n\r\n", outside.StreamPath, r.host); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	for ctx.Err() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(answerWithin))
		line, err := in.ReadString('\n')
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("the open answer by %s: %w", scheme, err)
		}
		if strings.HasPrefix(line, "line ") {
			r.count(&r.read)
		}
	}
	return nil
}

// answerWithin is how long one answer may take, on a machine with much else to do.
const answerWithin = 30 * time.Second

// dial connects to the registered host as the app does.
func (r *rotation) dial(ctx context.Context, scheme string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	addr, err := r.app.resolve(ctx, r.host)
	if err != nil {
		return nil, err
	}
	port := map[string]uint16{"http": 80, "https": 443}[scheme]
	conn, err := r.app.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
	if err != nil || scheme == "http" {
		return conn, err
	}
	settings := r.app.roots.Clone()
	settings.ServerName = r.host
	secure := tls.Client(conn, settings)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("a new https connection: %w", err), conn.Close())
	}
	return secure, nil
}

// ask makes one request and reads its answer to the end.
func (r *rotation) ask(conn net.Conn, in *bufio.Reader, path string) error {
	_ = conn.SetDeadline(time.Now().Add(answerWithin))
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, r.host); err != nil {
		return err
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "says hello") {
		return fmt.Errorf("%s: %q", resp.Status, body)
	}
	return nil
}
