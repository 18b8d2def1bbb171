// Command app is the program in tests' pods: a server that tells who asked, and a client that does what its caller
// asks and tells what came of it. It links the standard library only.
//
//	GET /              name of the pod, what the request looked like (JSON)
//	GET /healthz       200
//	GET /status/CODE   answers with that status
//	GET /fetch?url=…   makes that request; see fetch
//	GET /tcp?addr=…    connects, sends and receives; see tcp
//	GET /resolve?name= asks the pod's resolver
//
// HTTP is served on :8080, or at -http; on -tcp (:9090) every line is sent back behind the program's name.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const shutdownGrace = 2 * time.Second

func main() {
	httpAddr := flag.String("http", ":8080", "address to serve HTTP on")
	tcpAddr := flag.String("tcp", ":9090", "address to send lines back on")
	name := flag.String("name", "", "name to answer with; the host name if empty")
	flag.Parse()
	if *name == "" {
		*name, _ = os.Hostname()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *name, *httpAddr, *tcpAddr); err != nil {
		slog.Error("app ends", "error", err)
		os.Exit(3)
	}
}

func run(ctx context.Context, name, httpAddr, tcpAddr string) error {
	lines, err := net.Listen("tcp", tcpAddr)
	if err != nil {
		return err
	}
	go serveLines(lines, name)
	server := &http.Server{Addr: httpAddr, Handler: handler(name), ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	slog.Info("serving", "name", name, "http", httpAddr, "tcp", tcpAddr)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		return errors.Join(lines.Close(), server.Shutdown(ctx))
	}
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
