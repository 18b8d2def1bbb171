package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/cmd/sallyport/controlplane"
	"github.com/sallyport/sallyport/sidecar/secrets"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/token"
	"github.com/sallyport/sallyport/xds/serve"
)

// The proxy's token is written again when half of its life is over; where that fails, a minute later.
const (
	tokenTTL   = 24 * time.Hour
	tokenRenew = tokenTTL / 2
	tokenAgain = time.Minute
)

// upPorts are the agent's, which nobody outside has to know.
type upPorts struct{ admin, stats, status, ready, dns string }

// runProxy keeps the agent and its Envoy running, and says when they are ready.
func (u *embedded) runProxy(ctx context.Context, at controlplane.Addresses) error {
	run := filepath.Join(u.flags.data, "up")
	if err := os.MkdirAll(run, 0o700); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	tokenFile := filepath.Join(run, "token")
	if err := u.writeToken(tokenFile); err != nil {
		return err
	}
	var ports upPorts
	if err := freePorts(&ports.admin, &ports.stats, &ports.status, &ports.ready, &ports.dns); err != nil {
		return err
	}
	agent := &child{name: "proxy", log: u.log, file: u.agentFile, args: u.agentArgs(at, run, tokenFile, ports), output: os.Stderr}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return agent.keep(ctx) })
	g.Go(func() error {
		u.renewToken(ctx, time.Now, func() error { return u.writeToken(tokenFile) })
		return nil
	})
	g.Go(func() error {
		if waitReady(ctx, "http://127.0.0.1:"+ports.ready+"/healthz/ready") {
			u.announce(at)
		}
		return nil
	})
	return g.Wait()
}

func (u *embedded) agentArgs(at controlplane.Addresses, run, tokenFile string, p upPorts) []string {
	args := []string{
		"proxy", "router",
		"--discovery-addr", at.Secure, "--ca-root", filepath.Join(u.flags.data, ca.BundleFile), "--token", tokenFile,
		"--name", "up", "--namespace", upNamespace, "--service-account", upAccount, "--ip", "127.0.0.1",
		"--metadata", serve.MetaForward + "=" + u.proxy.String(),
		"--envoy", u.envoy, "--run-dir", run,
		"--admin-port", p.admin, "--stats-port", p.stats, "--stats-local",
		"--status-addr", "127.0.0.1:" + p.status, "--ready-addr", "127.0.0.1:" + p.ready, "--dns-addr", "127.0.0.1:" + p.dns,
		"--drain-time", "1s",
	}
	return append(args, u.names.agentArgs()...)
}

func (u *embedded) announce(at controlplane.Addresses) {
	u.say("ready")
	u.say("  forward proxy  http://%s   (HTTP_PROXY, HTTPS_PROXY)", u.proxy)
	if u.flags.consoleAddr != "" {
		u.say("  decisions      http://%s", u.flags.consoleAddr)
	}
	u.say("  audit log      sallyport audit query --data %s", u.flags.data)
	u.say("  control plane  http://%s   (/metrics, /debug)", at.Admin)
}

func (u *embedded) writeToken(file string) error {
	key, err := token.OpenKey(u.flags.data)
	if err != nil {
		return err
	}
	text, _, err := key.Issue(upNamespace, upAccount, time.Now(), tokenTTL)
	if err != nil {
		return err
	}
	next := file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// renewToken writes the token again by the calendar, until ctx ends: timers stand still while a machine sleeps. So it does where the clock was put back to
// before the token was written, from which on it counts.
func (u *embedded) renewToken(ctx context.Context, now func() time.Time, write func() error) {
	look := time.NewTicker(secrets.LookInterval)
	defer look.Stop()
	since, pause := now().Round(0), tokenRenew // without the monotonic clock
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		at := now().Round(0)
		if age := at.Sub(since); age >= 0 && age < pause {
			continue
		}
		since, pause = at, tokenRenew
		if err := write(); err != nil {
			u.log.Error("the proxy's token was not renewed", "error", err)
			pause = tokenAgain
		}
	}
}

// waitReady asks until the answer is 200; false when ctx ended first.
func waitReady(ctx context.Context, url string) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if asked(ctx, url) == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

func asked(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
