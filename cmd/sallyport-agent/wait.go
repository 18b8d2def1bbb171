package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
)

// waitFlags say what to wait for.
type waitFlags struct {
	url                            string
	timeout, period, requestLength time.Duration
}

// waitCommand holds a pod's start until its proxy is ready.
func waitCommand() *cobra.Command {
	var flags waitFlags
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait until the proxy of this pod is ready",
		Long: `Wait until the proxy of this pod is ready.

As the postStart hook of the proxy's container it keeps the kubelet from starting the containers that come after it
(holdApplicationUntilProxyStarts). Exit code 3 when the time is over.`,
		Example: `  sallyport-agent wait
  sallyport-agent wait --timeout 2m --url http://127.0.0.1:15021/healthz/ready`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return program.Misuse(err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			target, err := url.Parse(flags.url)
			if err != nil || target.Scheme != "http" || target.Host == "" {
				return program.Misuse(fmt.Errorf("--url %q: write http://HOST:PORT/PATH", flags.url))
			}
			if flags.timeout <= 0 || flags.period <= 0 || flags.requestLength <= 0 {
				return program.Misuse(errors.New("--timeout, --period and --request-timeout must be more than nothing"))
			}
			return flags.wait(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&flags.url, "url", "http://127.0.0.1:15021/healthz/ready", "what must answer 200")
	fs.DurationVar(&flags.timeout, "timeout", time.Minute, "how long to wait at most")
	fs.DurationVar(&flags.period, "period", 250*time.Millisecond, "how long to wait between two questions")
	fs.DurationVar(&flags.requestLength, "request-timeout", 2*time.Second, "how long one question may take")
	return cmd
}

// wait asks until the answer is 200 or the time is over.
func (f waitFlags) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	tick := time.NewTicker(f.period)
	defer tick.Stop()
	for {
		last := f.ask(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the proxy is not ready after %s: %w", f.timeout, last)
		}
	}
}

func (f waitFlags) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.requestLength)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without a proxy of the environment
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	why, err := io.ReadAll(io.LimitReader(resp.Body, 512))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(why)))
	}
	return nil
}
