package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/controlplane"
	"github.com/sallyport/sallyport/config/source/dir"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/xds/identity/ca"
)

// upFlags are those of "up".
type upFlags struct {
	dir, data, proxyAddr, consoleAddr string
	meshConfig                        string
	dnsServers, allowPrivate          []string
	envoy, agent, logLevel            string
	retention                         time.Duration
	watching                          watchFlags
	pages                             consoleFlags
	lake                              lakeFlags
	sending                           sendFlags
}

func upCommand() *cobra.Command {
	f := &upFlags{}
	cmd := &cobra.Command{
		Use:   "up DIR",
		Short: "Run an egress proxy on this machine that lets through what DIR registers",
		Long: `Run everything on this machine, without root: a control plane on a directory of YAML files,
one Envoy as an explicit forward proxy, and the audit log. It is for CI runners, virtual machines
and laptops.

Programs use it by HTTP_PROXY and HTTPS_PROXY. A host that a ServiceEntry in DIR registers (and
exports to namespace "default") goes out; any other gets 403 and is recorded. Files may change
at any time. Ctrl-C and SIGTERM end it cleanly, and so does SIGHUP where it has a terminal; a
service is told nothing by SIGHUP, and says so.

A name that resolves to a private, loopback, link-local or metadata address is refused and recorded
unless --allow-private, or sallyport.dns.allowPrivate in the file of --mesh-config, covers it. When every --dns-server given is on loopback, names may be on loopback too.`,
		Example: `  mkdir egress && sallyport up ./egress
  HTTPS_PROXY=http://127.0.0.1:3128 curl https://external.com`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return program.Misuse(fmt.Errorf("up takes the directory with the configuration, and nothing else; got %d arguments", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.dir = args[0]
			var err error
			if f.retention, err = keepRecords(cmd.Flags(), "audit-retention", f.retention, f.meshConfig); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.proxyAddr, "proxy-addr", "127.0.0.1:3128", "where the forward proxy listens, IP:PORT; port 0 takes a free one")
	fs.StringVar(&f.consoleAddr, "console-addr", "127.0.0.1:8181", "where the page with the decisions is; empty for none")
	auditDataFlag(cmd, &f.data)
	fs.StringVar(&f.meshConfig, "mesh-config", "", "file with Istio's MeshConfig, watched")
	fs.StringSliceVar(&f.dnsServers, "dns-server", nil, "IP[:PORT] of the DNS server that names are resolved by; sallyport.dns.upstreams of the mesh's settings, or those of /etc/resolv.conf, by default")
	fs.StringArrayVar(&f.allowPrivate, "allow-private", nil, "a host, *.SUFFIX, * or address range that may be private, loopback, link-local or metadata, like sallyport.dns.allowPrivate of the mesh's settings; repeat it")
	fs.StringVar(&f.envoy, "envoy", "", "Envoy's binary; the one beside this program, or on the PATH, by default")
	fs.StringVar(&f.agent, "agent", "", "sallyport-agent; the one beside this program, or on the PATH, by default")
	fs.DurationVar(&f.retention, "audit-retention", 30*24*time.Hour, "how long audit records are kept; without it sallyport.audit.retention of the mesh settings counts")
	fs.StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	f.watching.add(fs)
	f.lake.add(fs)
	f.sending.add(fs)
	return cmd
}

// account is the service account that the proxy runs as.
const (
	upNamespace = "default"
	upAccount   = "sallyport-up"
)

func (f *upFlags) run(ctx context.Context, progress io.Writer) error {
	if err := program.Directory("DIR", f.dir); err != nil {
		if _, not := os.Stat(f.dir); os.IsNotExist(not) {
			return fmt.Errorf("%w; make it with: mkdir -p %s", err, f.dir)
		}
		return err
	}
	proxy, err := freeAddress("--proxy-addr", f.proxyAddr)
	if err != nil {
		return program.Misuse(err)
	}
	if f.consoleAddr != "" {
		console, err := freeAddress("--console-addr", f.consoleAddr)
		if err != nil {
			return program.Misuse(err)
		}
		f.consoleAddr = console.String()
	}
	names, err := f.names()
	if err != nil {
		return err
	}
	envoy, err := beside("--envoy", f.envoy, "envoy")
	if err != nil {
		return err
	}
	agent, err := beside("--agent", f.agent, "sallyport-agent")
	if err != nil {
		return err
	}
	log, err := logger(f.logLevel)
	if err != nil {
		return err
	}
	f.watching.configDir, f.watching.meshConfig = f.dir, f.meshConfig
	f.pages.up, f.pages.meshConfig = f.dir, f.meshConfig
	if _, err := f.lake.check(); err != nil {
		return program.Misuse(err)
	}
	if _, err := f.sending.check(); err != nil {
		return program.Misuse(err)
	}
	if err := f.watching.check(); err != nil {
		return program.Misuse(err)
	}
	if f.data, err = auditData(f.data); err != nil {
		return err
	}
	if f.data, err = filepath.Abs(f.data); err != nil {
		return err
	}
	lock, err := claim(f.data)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	u := &embedded{flags: f, log: log, progress: progress, proxy: proxy, names: names, envoy: envoy, agentFile: agent}
	return u.run(ctx)
}

// embedded is a running "up".
type embedded struct {
	flags     *upFlags
	log       *slog.Logger
	progress  io.Writer
	proxy     netip.AddrPort
	names     upNames
	envoy     string
	agentFile string
}

func (u *embedded) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	audit, err := auditServer(u.log, u.flags.data, u.flags.consoleAddr, u.flags.retention, slices.Concat(u.flags.watching.args(), u.flags.pages.args(), u.flags.lake.args(), u.flags.sending.args())...)
	if err != nil {
		return err
	}
	u.say("starting, with %s and data in %s", u.flags.dir, u.flags.data)
	if u.names.closed {
		u.say("names may resolve to loopback addresses, since every --dns-server is one")
	}
	if !u.proxy.Addr().IsLoopback() {
		u.say("warning: everybody who reaches %s can use this proxy, and has what %s registers", u.proxy, u.flags.dir)
	}
	listening := make(chan controlplane.Addresses, 1)
	g.Go(func() error { return audit.keep(ctx) })
	g.Go(func() error {
		return runPlane(ctx, controlplane.Config{
			Source:         dir.New(u.flags.dir, dir.Options{Logger: u.log, Memory: filepath.Join(u.flags.data, lastGood)}),
			MeshConfigFile: u.flags.meshConfig,
			DataDir:        u.flags.data,
			ForwardFor:     upNamespace,
			CertTTL:        ca.DefaultTTL,
			SecureAddr:     "127.0.0.1:0",
			AdminAddr:      "127.0.0.1:0",
			AuditSocket:    filepath.Join(u.flags.data, query.SocketName),
			Log:            u.log,
			Listening:      func(a controlplane.Addresses) { listening <- a },
		})
	})
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case at := <-listening:
			return u.runProxy(ctx, at)
		}
	})
	err = g.Wait()
	u.say("ended")
	return err
}

func (u *embedded) say(format string, args ...any) {
	fmt.Fprintf(u.progress, "sallyport: "+format+"\n", args...)
}
