package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/dnsproxy"
	"github.com/sallyport/sallyport/dnsproxy/hosts"
)

// dnsCommand is the resolver alone.
func dnsCommand() *cobra.Command {
	var flags dnsFlags
	cmd := &cobra.Command{
		Use:   "dns --listen ADDR --upstream ADDR[,ADDR…] [--names FILE]",
		Short: "Run the caching resolver alone",
		Long: `Run the caching resolver alone: UDP and TCP on one address, answers from a file of names, a cache and
upstream resolvers. It logs to standard error and stops on SIGINT and SIGTERM.

The file of names is read again when it changes; one with an error changes nothing. A name ending in .yaml, .yml or
.json holds a map:

  external.com: [240.240.0.1, "2001:2::1"]
  "*.example.com": 240.240.0.2
  db.internal.test: {addresses: [10.0.0.7], ttl: 60, aliases: [db]}

Any other name holds lines like /etc/hosts, ADDRESS HOST [ALIAS…]:

  240.240.0.1  external.com www.external.com   # a comment

"*.DOMAIN" stands for all names below DOMAIN; the longest match wins, and a name written out wins over all. A name has
only the families that are listed, and its addresses are answered in reverse (PTR) as well.`,
		Example: `  sallyport-agent dns --listen 127.0.0.1:15053 --upstream 10.96.0.10 --names names.yaml
  sallyport-agent dns --listen 127.0.0.1:5353 --upstream 192.0.2.1,192.0.2.2:5300 --forward corp.test=10.0.0.53
  sallyport-agent dns --listen 127.0.0.1:5353 --resolv-conf /etc/resolv.conf --refuse-inside
  sallyport-agent dns --listen 127.0.0.1:5353 --upstream tls://192.0.2.1#dns.example --admin-addr 127.0.0.1:5380
  sallyport-agent dns --listen 127.0.0.1:5353 --upstream 10.96.0.10 --names names.yaml --names-only --local cluster.local
  dig @127.0.0.1 -p 5353 external.com`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runDNS(ctx, flags, cmd)
		},
	}
	flags.register(cmd.Flags())
	return cmd
}

// runDNS serves until ctx ends. It writes the address to stdout once it answers there.
func runDNS(ctx context.Context, flags dnsFlags, cmd *cobra.Command) error {
	level := slog.LevelInfo
	if flags.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	config, err := flags.config(log)
	if err != nil {
		return program.Misuse(err)
	}
	server, err := dnsproxy.New(config)
	if err == nil {
		err = server.SetPolicy(config.Views[0].Name, flags.policy())
	}
	if err != nil {
		return program.Misuse(err)
	}
	if flags.names != "" {
		if _, err := os.ReadFile(flags.names); err != nil {
			return fmt.Errorf("--names: %w", err)
		}
	} else {
		server.Names().SetReady()
	}
	if err := server.Listen(); err != nil {
		return err
	}
	admin, err := listenAdmin(flags.admin)
	if err != nil {
		return fmt.Errorf("--admin-addr: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx) })
	group.Go(func() error { paceCollector(ctx, flags.cacheBytes); return nil })
	if flags.names != "" {
		group.Go(func() error { return hosts.Follow(ctx, flags.names, server.Names(), log) })
	}
	if admin != nil {
		group.Go(func() error { return serveAdmin(ctx, admin, server) })
	}
	fmt.Fprintln(cmd.OutOrStdout(), server.Addr(config.Views[0].Name))
	return group.Wait()
}
