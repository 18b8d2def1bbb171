package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/dnsproxy"
	"github.com/sallyport/sallyport/dnsproxy/guard"
	"github.com/sallyport/sallyport/dnsproxy/hosts"
)

// dnsFlags are what the resolver alone is told.
type dnsFlags struct {
	listen     string
	upstreams  []string
	resolvConf string
	forward    []string
	names      string
	search     []string
	only       bool
	refuse     bool
	cacheBytes int
	maxStale   time.Duration
	verbose    bool
}

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
  dig @127.0.0.1 -p 5353 external.com`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runDNS(ctx, flags, cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.listen, "listen", "", "IP:PORT to answer on, UDP and TCP; port 0 takes a free one (needed)")
	f.StringSliceVar(&flags.upstreams, "upstream", nil, "resolvers to ask, IP or IP:PORT, the next when one fails")
	f.StringVar(&flags.resolvConf, "resolv-conf", "", "take the resolvers from this file instead, and follow it")
	f.StringArrayVar(&flags.forward, "forward", nil, "DOMAIN=ADDR[,ADDR…]: ask these for a domain and all below it; repeatable")
	f.StringVar(&flags.names, "names", "", "file of names to answer without asking anybody")
	f.StringSliceVar(&flags.search, "search", nil, "domains that clients append: NAME.DOMAIN is answered from the file's NAME")
	f.BoolVar(&flags.only, "names-only", false, "answer NXDOMAIN for what the file of names does not have")
	f.BoolVar(&flags.refuse, "refuse-inside", false, "take private, loopback, link-local and metadata addresses out of upstream's answers")
	f.IntVar(&flags.cacheBytes, "cache-bytes", 4<<20, "bound of the cache, in bytes")
	f.DurationVar(&flags.maxStale, "max-stale", time.Hour, "how long an expired answer helps out while no resolver answers; 0: never")
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "log each failure too")
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
		return usageError{err}
	}
	server, err := dnsproxy.New(config)
	if err != nil {
		return usageError{err}
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
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx) })
	if flags.names != "" {
		group.Go(func() error { return hosts.Follow(ctx, flags.names, server.Names(), log) })
	}
	fmt.Fprintln(cmd.OutOrStdout(), server.Addr(config.Views[0].Name))
	return group.Wait()
}

// config reads the flags into the resolver's terms.
func (f dnsFlags) config(log *slog.Logger) (dnsproxy.Config, error) {
	var none dnsproxy.Config
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return none, fmt.Errorf("--listen %q: write IP:PORT, as in 127.0.0.1:15053", f.listen)
	}
	forward := map[string][]string{}
	for _, text := range f.forward {
		domain, servers, ok := strings.Cut(text, "=")
		if !ok || domain == "" || servers == "" {
			return none, fmt.Errorf("--forward %q: write DOMAIN=ADDR[,ADDR…], as in corp.test=10.0.0.53", text)
		}
		forward[domain] = append(forward[domain], strings.Split(servers, ",")...)
	}
	switch {
	case len(f.upstreams) > 0 && f.resolvConf != "":
		return none, fmt.Errorf("--upstream and --resolv-conf exclude each other; give one of them")
	case len(f.upstreams) == 0 && f.resolvConf == "" && len(forward) == 0 && !f.only:
		return none, fmt.Errorf("--upstream is needed, as in --upstream 10.96.0.10 (or --resolv-conf, --forward, or --names-only)")
	case f.only && f.names == "":
		return none, fmt.Errorf("--names-only needs --names FILE")
	}
	view := dnsproxy.View{Name: "app", Listen: []string{f.listen}, Names: true, Search: f.search}
	if f.refuse {
		view.Refuse = guard.Inside
	}
	if f.only {
		view.Policy = f.policy(slices.Collect(maps.Keys(forward)))
	}
	stale := f.maxStale
	if stale == 0 {
		stale = -1
	}
	return dnsproxy.Config{
		Views: []dnsproxy.View{view}, Upstreams: f.upstreams, ResolvConf: f.resolvConf, Forward: forward,
		CacheBytes: f.cacheBytes, MaxStale: stale, Prefetch: true, Log: log,
	}, nil
}

// policy lets names through that the file has without addresses, and the domains with resolvers of their own.
func (f dnsFlags) policy(domains []string) func(dnsproxy.Question) dnsproxy.Action {
	return func(q dnsproxy.Question) dnsproxy.Action {
		within := func(domain string) bool {
			domain = strings.ToLower(strings.Trim(domain, "."))
			return q.Name == domain || strings.HasSuffix(q.Name, "."+domain)
		}
		if q.Known || slices.ContainsFunc(domains, within) {
			return dnsproxy.Forward
		}
		return dnsproxy.NXDomain
	}
}
