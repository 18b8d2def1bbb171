package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/config/source/kube/clientlog"
	"github.com/sallyport/sallyport/sidecar/nodeguard"
	"github.com/sallyport/sallyport/sidecar/nodeguard/enforce"
	"github.com/sallyport/sallyport/sidecar/nodeguard/kernel"
	"github.com/sallyport/sallyport/sidecar/nodeguard/watch"
)

// How long --dry-run waits for the API server, and how long until samples are asked for again when somebody else has them.
const (
	dryRunPatience  = 30 * time.Second
	samplesPatience = 10 * time.Second
)

// guardCommand keeps the node's pods inside.
func guardCommand() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "guard",
		Short: "Let guarded pods leave the node to the cluster only, and so to the world by the gateway",
		Long: `Let guarded pods leave the node to the cluster only, and so to the world by the gateway.

Pods of namespaces that get sidecars (istio-injection=enabled, istio.io/rev), or are served by their nodes
(istio.io/dataplane-mode=ambient), are guarded, with or without a sidecar, whichever user
they run as and whatever protocol they speak. They reach pods, nodes and Services of the cluster, and what --allow names. The
rest is refused at once, counted, and logged by samples. Pods of the system's namespace, of kube-system and what --exempt
names reach everything.

It writes one nftables table into the node's network namespace, for IPv4 and IPv6, and takes root there with NET_ADMIN. The
rules stay when it ends, and while the API server is away.`,
		Example: `  # as the chart's DaemonSet runs it
  sallyport-node guard --node-name=$NODE_NAME --system-namespace=istio-system

  # see what it would write, from anywhere
  sallyport-node guard --node-name=worker-1 --kubeconfig ~/.kube/config --dry-run

  # guard two namespaces by name; the network plugin keeps its own ranges; a gateway of one's own; an API server outside
  sallyport-node guard --node-name=worker-1 --namespaces shop,team-a --pod-network 10.0.0.0/14 \
    --exempt team-a/app=gateway --allow 172.16.0.1/32`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := s.options()
			log, levelErr := s.log()
			if err := errors.Join(err, levelErr); err != nil {
				return program.Misuse(err)
			}
			return runGuard(cmd.Context(), s, options, log, cmd.OutOrStdout())
		},
	}
	s.bind(cmd.Flags())
	return cmd
}

func runGuard(ctx context.Context, s settings, options nodeguard.Options, log *slog.Logger, out io.Writer) error {
	config, err := kube.Connect(s.kubeconfig, s.context)
	if err != nil {
		return program.Misuse(err)
	}
	config.UserAgent = "sallyport-node/" + version
	source, err := watch.New(config, watch.Options{Node: s.node, Services: len(s.services) == 0, Log: log})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(clientlog.Context(ctx, log))
	group.Go(func() error { source.Run(ctx); return nil })
	if s.dryRun {
		err := dryRun(ctx, source, options, out)
		cancel()
		return errors.Join(err, group.Wait())
	}
	table := kernel.Open()
	if err := table.Usable(); err != nil {
		cancel()
		return errors.Join(err, group.Wait())
	}
	guard := enforce.New(options, source, table, enforce.DefaultTiming, log)
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(guard, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if s.healthAddr != "" {
		listener, err := listen(ctx, s.healthAddr)
		if err != nil {
			cancel()
			return errors.Join(program.Misuse(err), group.Wait())
		}
		group.Go(func() error { return serve(ctx, listener, guard, metrics) })
	}
	group.Go(func() error { return guard.Run(ctx) })
	group.Go(func() error { takeSamples(ctx, guard, log); return nil })
	log.Info("guarding", "node", s.node, "version", version)
	err = group.Wait()
	if s.onExit == "release" {
		_, cleanErr := table.Clean()
		log.Info("the rules are removed, as --on-exit says", "error", cleanErr)
		err = errors.Join(err, cleanErr)
	}
	return err
}

// dryRun prints the plan of what is known now.
func dryRun(ctx context.Context, source *watch.Watcher, options nodeguard.Options, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, dryRunPatience)
	defer cancel()
	if err := source.Synced(ctx); err != nil {
		return fmt.Errorf("the API server has not given everything within %s: %w", dryRunPatience, err)
	}
	plan, err := nodeguard.Build(options, source.View())
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, plan.Text())
	return err
}

// takeSamples logs refusals as long as nobody else listens to them: the guard that this one replaces may, for a moment.
func takeSamples(ctx context.Context, guard *enforce.Guard, log *slog.Logger) {
	refusals := guard.Refusals()
	said := false
	for ctx.Err() == nil {
		if err := kernel.Listen(ctx, refusals.Take); err != nil && !said {
			log.Warn("refusals are counted but not logged", "error", err)
			said = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(samplesPatience):
		}
	}
}
