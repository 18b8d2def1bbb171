package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/e2e/freeport"
	"github.com/sallyport/sallyport/e2e/world"
)

const (
	pollEvery = 50 * time.Millisecond
	// attempts are for a port that somebody else took between our finding it and the program's listening there.
	attempts = 3
)

func start(ctx context.Context, run *world.Run, p programs) (*Server, error) {
	etcd, err := startEtcd(ctx, run, p.etcd)
	if err != nil {
		return nil, err
	}
	files, err := writeFiles(filepath.Join(run.Dir, "pki"))
	if err != nil {
		return nil, err
	}
	return severalTimes(ctx, func(ctx context.Context) (*Server, error) { return startAPIServer(ctx, run, p.apiserver, etcd, files) })
}

// severalTimes tries to start an API server, at another port each time.
func severalTimes(ctx context.Context, start func(context.Context) (*Server, error)) (*Server, error) {
	for n := 1; ; n++ {
		server, err := start(ctx)
		if err == nil {
			return server, nil
		}
		if n == attempts || ctx.Err() != nil {
			return nil, err
		}
	}
}

// startEtcd gives the URL that it answers at.
func startEtcd(ctx context.Context, run *world.Run, program string) (string, error) {
	var failure error
	for n := range attempts {
		client, peer, err := twoURLs()
		if err != nil {
			return "", err
		}
		name := fmt.Sprintf("etcd-%d", n)
		process, err := run.Start(name, program,
			"--name=test", "--data-dir="+filepath.Join(run.Dir, name), "--unsafe-no-fsync",
			"--listen-client-urls="+client, "--advertise-client-urls="+client,
			"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=test="+peer,
			"--logger=zap", "--log-outputs=stderr", "--log-level=warn")
		if err != nil {
			return "", err
		}
		if failure = ready(ctx, process, http.DefaultClient, client+"/health"); failure == nil || ctx.Err() != nil {
			return client, failure
		}
	}
	return "", failure
}

func startAPIServer(ctx context.Context, run *world.Run, program, etcd string, files files) (*Server, error) {
	number, err := freeport.Port()
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(number)
	process, err := run.Start("kube-apiserver-"+port, program,
		"--etcd-servers="+etcd, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+port,
		"--tls-cert-file="+files.in("apiserver.crt"), "--tls-private-key-file="+files.in("apiserver.key"),
		"--client-ca-file="+files.in("ca.crt"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+files.in("service-accounts.key"),
		"--service-account-signing-key-file="+files.in("service-accounts.key"),
		"--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none", "--allow-privileged",
		// Nobody makes the service account "default" of a namespace here, without which a pod would be refused.
		"--disable-admission-plugins=ServiceAccount",
		// A test may ask as much as it likes.
		"--enable-priority-and-fairness=false", "--max-requests-inflight=0", "--max-mutating-requests-inflight=0")
	if err != nil {
		return nil, err
	}
	server, err := files.access(run.Dir, "https://127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(server.Config)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	server.process, server.again = process, func(ctx context.Context) (*Server, error) { return startAPIServer(ctx, run, program, etcd, files) }
	return server, ready(ctx, process, client, server.Config.Host+"/readyz")
}

// ready waits until the URL answers 200 or the process has ended.
func ready(ctx context.Context, process *world.Process, client *http.Client, url string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-process.Done():
			cancel(process.Running())
		case <-ctx.Done():
		}
	}()
	return world.Poll(ctx, pollEvery, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s; log: %s", url, answer.Status, process.Log)
		}
		return nil
	})
}

func twoURLs() (client, peer string, err error) {
	if client, err = freeport.Addr(); err != nil {
		return "", "", err
	}
	peer, err = freeport.Addr()
	return "http://" + client, "http://" + peer, err
}
