// Command app is the program in tests' pods: a server that tells who asked, and a client that does what its caller
// asks and tells what came of it. It links the standard library only.
//
//	GET /              name of the pod, what the request looked like (JSON)
//	GET /healthz       200
//	GET /status/CODE   answers with that status
//	GET /fetch?url=…   makes that request; see fetch
//	GET /load?url=…    makes requests, one after another, as long as its caller reads; see load
//	GET /tcp?addr=…    connects, sends and receives; see tcp
//	GET /udp?addr=…    sends a datagram and receives one; see udp
//	GET /ws?addr=…     opens a WebSocket and sends a message; see webSocket
//	GET /grpc?addr=…   asks a gRPC server for its health; see grpc
//	GET /resolve?name= asks the pod's resolver
//
// HTTP is served on :8080, or at -http (several, with commas), WebSockets at /socket; h2c and gRPC's health service too. On -tcp (:9090) every
// line is sent back behind the program's name; what is sent to -udp, too. On -first the server speaks first: it sends its name as a line and
// then does the same. -tls serves HTTPS with a certificate of its own making. When it is told to end it serves for -linger more, in which it asks clients
// to close what they keep.
//
// With -get URL it makes that request until the answer is 200, for -patience at most, and ends: what a Job, an init
// container or a probe does.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const shutdownGrace = 2 * time.Second

func main() {
	var a addresses
	flag.StringVar(&a.http, "http", ":8080", "addresses to serve HTTP on, with commas")
	flag.StringVar(&a.tls, "tls", "", "address to serve HTTPS on")
	flag.StringVar(&a.tcp, "tcp", ":9090", "address to send lines back on")
	flag.StringVar(&a.first, "first", "", "address to speak first on")
	flag.StringVar(&a.udp, "udp", "", "address to send datagrams back on")
	flag.DurationVar(&a.linger, "linger", 0, "how long to serve after SIGTERM, with the word to close what is kept")
	name := flag.String("name", "", "name to answer with; the host name if empty")
	url := flag.String("get", "", "make this request and end")
	patience := flag.Duration("patience", 30*time.Second, "how long -get tries")
	flag.Parse()
	if *name == "" {
		*name, _ = os.Hostname()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	if *url != "" {
		err = getUntil(ctx, *url, *patience)
	} else {
		err = run(ctx, *name, a)
	}
	if err != nil {
		slog.Error("app ends", "error", err)
		os.Exit(3)
	}
}

// addresses are where the program serves; "" for nowhere. linger is how long it goes on when it is told to end.
type addresses struct {
	http, tls, tcp, first, udp string
	linger                     time.Duration
}

func run(ctx context.Context, name string, a addresses) error {
	var closers []io.Closer
	ended := make(chan error, 8)
	var ends atomic.Bool
	server := &http.Server{Handler: closing(&ends, handler(name)), ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.Protocols.SetHTTP2(true)
	listen := func(addr string, serve func(net.Listener) error) error {
		if addr == "" {
			return nil
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		closers = append(closers, l)
		go func() { ended <- serve(l) }()
		return nil
	}
	certificate, err := ownCertificate(name)
	if err != nil {
		return err
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	errs := []error{
		listen(a.tls, func(l net.Listener) error { return server.ServeTLS(l, "", "") }),
		listen(a.tcp, func(l net.Listener) error { return serveLines(l, name, false) }),
		listen(a.first, func(l net.Listener) error { return serveLines(l, name, true) }),
	}
	for addr := range strings.SplitSeq(a.http, ",") {
		errs = append(errs, listen(addr, server.Serve))
	}
	if a.udp != "" {
		c, err := net.ListenPacket("udp", a.udp)
		errs = append(errs, err)
		if err == nil {
			closers = append(closers, c)
			go func() { ended <- serveDatagrams(c, name) }()
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	slog.Info("serving", "name", name, "at", a)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		ends.Store(true)
		time.Sleep(a.linger)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		errs := []error{server.Shutdown(ctx)}
		for _, c := range closers {
			if err := c.Close(); !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
}

// closing has clients close the connections that they keep, once the program ends.
func closing(ends *atomic.Bool, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ends.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
