package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/egress/audit/store/server"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/netcap"
)

// TestPortsCloseTooMany: of each port that other pods reach, connections that are too many are closed.
func TestPortsCloseTooMany(t *testing.T) {
	records, page := recordLimits, consoleLimits
	recordLimits, consoleLimits = netcap.Limits{All: 1, Each: 1}, netcap.Limits{All: 1, Each: 1}
	t.Cleanup(func() { recordLimits, consoleLimits = records, page })
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	if _, err := ca.Open(ca.Options{DataDir: dir, TrustDomain: "cluster.local", Log: log}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var g errgroup.Group
	t.Cleanup(func() { end(); _ = g.Wait() })
	ports := func(pair ...string) *auditPorts {
		return &auditPorts{
			tls: "127.0.0.1:0", caAddress: "127.0.0.1:1", root: filepath.Join(dir, "root-cert.pem"), token: filepath.Join(dir, "token"),
			namespace: "istio-system", account: "sallyport-audit", trustDomain: "cluster.local", certificates: t.TempDir(),
			pair: pairFlags{both: pair, addr: "127.0.0.1:0", address: "127.0.0.1:1"},
		}
	}
	door, err := (&loginFlags{addr: "127.0.0.1:0", cert: "c", key: "k", kubeconfig: kubeconfig}).door(ctx, &g, log)
	if err != nil {
		t.Fatal(err)
	}
	alone, paired := server.Options{Data: dir, Logger: log}, server.Options{Data: dir, Logger: log}
	if err := errors.Join(ports().open(ctx, &g, &alone), ports("a", "b").open(ctx, &g, &paired)); err != nil {
		t.Fatal(err)
	}
	for name, listen := range map[string]func() (net.Listener, error){
		"records": alone.Ports[0].Listen, "records of a pair": paired.Ports[0].Listen, "the other server's": opened(paired.Pair.Listener), "the page": opened(door.Listener),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := listen()
			if err != nil {
				t.Fatal(err)
			}
			accepted := make(chan net.Conn, 2)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						close(accepted)
						return
					}
					accepted <- c
				}
			}()
			dial := func() net.Conn {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			dial()
			first := <-accepted
			more := dial()
			if err := more.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := more.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("one too many is not closed: %v", err)
			}
			_ = errors.Join(first.Close(), l.Close())
			for c := range accepted {
				_ = c.Close()
			}
		})
	}
}
