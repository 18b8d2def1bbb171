package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/agent"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
)

// gcPercent trades CPU, of which the agent uses little, for resident memory, of which every pod pays for its own.
const gcPercent = 40

// proxyCommand bootstraps and supervises Envoy.
func proxyCommand() *cobra.Command {
	flags := newProxyFlags()
	cmd := &cobra.Command{
		Use:   "proxy sidecar|router|waypoint",
		Short: "Run a pod's Envoy: bootstrap, configuration, certificates, DNS, audit records",
		Long: `Run a pod's Envoy: write its bootstrap, start it, start it again when it dies, drain it at the end.

Envoy gets configuration and certificates from the controller through the agent, which keeps the last good ones in the run directory:
both come up from there when the controller is away. Access logs are spooled in the run directory until the audit server has them.
Each flag is also read from the environment variable in brackets; a flag that is given wins. Further node metadata comes from
ISTIO_META_KEY=text and ISTIO_METAJSON_KEY=json; PROXY_CONFIG (YAML) gives discoveryAddress, concurrency, terminationDrainDuration,
proxyMetadata. ISTIO_KUBE_APP_PROBERS (JSON) holds the application's probes, which the agent performs for the kubelet on --status-addr.`,
		Example: `  # a sidecar of the pod sleep-1, with a token that "sallyport token" printed
  sallyport-agent proxy sidecar --discovery-addr 127.0.0.1:15012 --ca-root data/root-cert.pem --token token \
    --name sleep-1 --namespace team-a --service-account sleep --ip 10.1.2.3 --label app=sleep --envoy bin/envoy --run-dir /tmp/sleep-1

  # an egress gateway
  sallyport-agent proxy router --name egress-1 --namespace istio-system --service-account egress --label istio=egressgateway …

  # what it does
  curl -s localhost:15020/debug/relay`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(1)(cmd, args); err != nil {
				return program.Misuse(fmt.Errorf("say what the proxy is: %s, %s or %s (%w)", bootstrap.Sidecar, bootstrap.Router, bootstrap.Waypoint, err))
			}
			return nil
		},
		ValidArgs: []string{bootstrap.Sidecar, bootstrap.Router, bootstrap.Waypoint},
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := flags.config(cmd.Flags(), args[0], os.Environ())
			if err != nil {
				return program.Misuse(err)
			}
			return runProxy(cmd.Context(), config, cmd.ErrOrStderr())
		},
	}
	flags.bind(cmd.Flags())
	return cmd
}

func runProxy(ctx context.Context, config agent.Config, stderr io.Writer) error {
	debug.SetGCPercent(gcPercent)
	config.Log = slog.New(slog.NewTextHandler(stderr, nil))
	config.Output = stderr
	config.Records = accessLogRecords(config.Proxy)
	path, err := exec.LookPath(config.Envoy)
	if err != nil {
		return program.Misuse(fmt.Errorf("--envoy: %w", err))
	}
	config.Envoy = path
	err = agent.Run(ctx, config)
	if errors.Is(err, agent.ErrConfig) {
		return program.Misuse(err)
	}
	return err
}

// accessLogRecords maps what this proxy's Envoy logs to audit records.
func accessLogRecords(proxy bootstrap.Options) func() agent.LogReader {
	node := envoylog.Node{
		ID: bootstrap.NewNode(proxy).ID,
		Workload: record.Workload{
			Principal: fmt.Sprintf("spiffe://%s/ns/%s/sa/%s", proxy.TrustDomain, proxy.Namespace, proxy.ServiceAccount),
			Namespace: proxy.Namespace, ServiceAccount: proxy.ServiceAccount, Name: proxy.Name,
		},
	}
	return func() agent.LogReader { return envoylog.NewReader(node) }
}
