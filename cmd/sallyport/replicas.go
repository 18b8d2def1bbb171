package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/forward"
	"github.com/sallyport/sallyport/xds/serve"
)

// Where a controller's pod, and an agent's, answer on their loopback.
const (
	adminPort = 15014
	agentPort = 15020
)

// replica is a controller to ask. The one of --admin-addr has no name.
type replica struct {
	name   string
	client *http.Client
	host   string
	tunnel *forward.Tunnel // nil without a cluster
}

// controllers finds whom to ask: the process at the admin address, or the cluster's replicas. Some replicas may not be
// reachable: they are an error beside those that are.
func controllers(ctx context.Context, cluster *clusterFlags, admin string) ([]replica, error) {
	if !cluster.given() {
		return []replica{{client: http.DefaultClient, host: admin}}, nil
	}
	access, err := cluster.open(ctx)
	if err != nil {
		return nil, err
	}
	return access.controllers(ctx)
}

func (a *clusterAccess) controllers(ctx context.Context) ([]replica, error) {
	ready, notReady, err := forward.Ready(ctx, a.client.CoreV1(), a.system, controllerLabel)
	if err != nil {
		return nil, a.noAccess(err)
	}
	var failed []error
	if len(notReady) > 0 {
		failed = append(failed, fmt.Errorf("not asked, since they are not ready: %s", strings.Join(notReady, ", ")))
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	replicas, errs := make([]replica, len(ready)), make([]error, len(ready))
	var wait sync.WaitGroup
	for i, pod := range ready {
		wait.Go(func() { replicas[i], errs[i] = a.reach(ctx, pod.Name, adminPort) })
	}
	wait.Wait()
	var reached []replica
	for i, r := range replicas {
		if errs[i] == nil {
			reached = append(reached, r)
		} else {
			failed = append(failed, a.noAccess(errs[i]))
		}
	}
	return reached, errors.Join(failed...)
}

// reach opens a way to one of the system's pods.
func (a *clusterAccess) reach(ctx context.Context, pod string, port uint16) (replica, error) {
	tunnel, err := forward.Open(ctx, a.config, a.system, pod)
	if err != nil {
		return replica{}, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return tunnel.Dial(ctx, port) }
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: readWithin}
	return replica{name: pod, client: client, host: fmt.Sprintf("localhost:%d", port), tunnel: tunnel}, nil
}

func closeAll(replicas []replica) {
	for _, r := range replicas {
		if r.tunnel != nil {
			_ = r.tunnel.Close()
		}
	}
}

// ask puts a question to the controller's admin address.
func (r replica) ask(ctx context.Context, path string, query url.Values) ([]byte, error) {
	u := url.URL{Scheme: "http", Host: r.host, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, program.Misuse(fmt.Errorf("--admin-addr %q: %w", r.host, err))
	}
	resp, err := r.client.Do(req)
	switch {
	case err != nil && r.name != "":
		return nil, fmt.Errorf("the controller in pod %s: %w", r.name, err)
	case err != nil:
		return nil, fmt.Errorf("the controller does not answer at %s: is it running, with this --admin-addr? for a cluster's give --kubeconfig; %w", r.host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(strings.TrimSpace(string(body)))
	}
	return body, nil
}

// connectedProxy is a proxy as a replica sees it.
type connectedProxy struct {
	serve.ProxyStatus
	Replica string `json:"replica,omitempty"`
}

// proxies asks a replica who is connected to it.
func (r replica) proxies(ctx context.Context) ([]connectedProxy, error) {
	body, err := r.ask(ctx, "/debug/proxies", nil)
	if err != nil {
		return nil, err
	}
	var list []connectedProxy
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("the controller in pod %s: /debug/proxies: %w", r.name, err)
	}
	for i := range list {
		list[i].Replica = r.name
	}
	return list, nil
}
