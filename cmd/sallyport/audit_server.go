package main

import (
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/presence"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/store/server"
)

func auditServerCommand() *cobra.Command {
	var data, retention string
	var options server.Options
	var metricsAddr string
	ports, watching, pages, lake, sending := &auditPorts{}, &watchFlags{}, &consoleFlags{}, &lakeFlags{}, &sendFlags{}
	door := &loginFlags{}
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Keep the audit log: take records, answer questions, serve the web page",
		Long: `Keep the audit log: take records, answer questions, serve the web page.

The log is a DuckDB file in DATA/audit; records and questions come by the socket DATA/audit.sock (mode 0600). One server
at a time serves a data folder. In a cluster, controllers hand records in by --tls-addr, and kubectl port-forward reaches
--query-addr. SIGTERM and SIGINT end it after what was handed in is stored.

Every --detect-every it looks in the log for what should not be there (see "sallyport detect"), and logs what is new; --detect-send
sends it on as well. With --lake what comes in goes on to object storage, every --lake-every: see "sallyport audit lake".
--send-records passes each record on as it comes in, at least once. With --console-tls-addr the web page is also there for those
who log in, who see the records of the namespaces that the cluster's roles let them read. With --console-cluster it knows the cluster's configuration, too.

--pair names two servers that keep the same log, each with a data folder of its own: what one takes it acknowledges when both have it, and
either answers all questions while the other one is away.`,
		Example: `  sallyport audit server --data /var/lib/sallyport
  sallyport audit server --data /var/lib/sallyport --retention 90d --console-addr ''
  sallyport audit server --detect-send slack=/etc/sallyport/slack-url --detect-send alertmanager=/etc/sallyport/alertmanager-url
  sallyport audit server --send-records kafka=/etc/sallyport/kafka --send-records splunk=/etc/sallyport/splunk-url
  sallyport audit server --lake 's3://logs/egress?endpoint=https://s3.example.com' --lake-cluster prod-1 --lake-credentials /etc/sallyport/s3
  sallyport audit server --tls-addr :15016 --ca-address sallyport.istio-system.svc:15012 \
    --ca-root /var/run/secrets/istio/root-cert.pem --token /var/run/secrets/tokens/istio-token
  sallyport audit server --console-tls-addr :8443 --console-tls-cert tls.crt --console-tls-key tls.key --console-kubeconfig admin.kubeconfig`,
		Args: auditArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if options.Data, err = auditData(data); err != nil {
				return err
			}
			if options.Retention, err = auditRetention(retention); err != nil {
				return err
			}
			options.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			var reading auditJob
			if options.Config, reading, err = pages.reader(door.kubeconfig, options.Logger); err != nil {
				return err
			}
			registry := prometheus.NewRegistry()
			if err := ports.check(options.Data); err != nil {
				return err
			}
			ports.pair.prepare(&options, registry)
			options.Presence = presence.New(nil)
			watching.others, watching.connected = ports.pair.others, options.Presence.Connected
			watch, found, err := watching.beside(options.Data, options.Logger, registry)
			if err != nil {
				return program.Misuse(err)
			}
			var export, forward auditJob
			if !ports.pair.standsBy { // or the other server does both
				if export, err = lake.beside(&options, registry); err != nil {
					return program.Misuse(err)
				}
				if forward, err = sending.beside(&options, registry); err != nil {
					return program.Misuse(err)
				}
			}
			metrics, err := metricsJob(metricsAddr, registry)
			if err != nil {
				return program.Misuse(err)
			}
			options.Found, options.Beside = found, together([]auditJob{metrics, watch, export, forward, reading})
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return serveAudit(ctx, options, ports, door)
		},
	}
	auditDataFlag(cmd, &data)
	flags := cmd.Flags()
	flags.StringVar(&options.ConsoleAddr, "console-addr", "127.0.0.1:8181", "the web page's address; empty for none. "+
		"It has no login: beyond loopback everybody who reaches it reads the log")
	flags.StringVar(&retention, "retention", "30d", "delete older records (720h, 30d); 0 keeps them for ever")
	ports.add(cmd)
	watching.add(flags)
	watching.addServers(flags)
	pages.add(flags)
	pages.addCluster(flags)
	door.add(flags)
	lake.add(flags)
	sending.add(flags)
	flags.StringVar(&metricsAddr, "metrics-addr", "", "where /metrics is, like :15014; empty for none")
	flags.StringVar(&options.MemoryLimit, "memory-limit", "512MB", "DuckDB's memory; larger sorts spill to DATA/audit")
	return cmd
}

// auditRetention reads a duration that may be in days.
func auditRetention(text string) (time.Duration, error) {
	if text == "0" || text == "" {
		return 0, nil
	}
	d, err := query.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, program.Misuse(fmt.Errorf("--retention %q: write a duration like 720h or 30d, or 0", text))
	}
	return d, nil
}

// auditArgs makes a wrong number of arguments a wrong call.
func auditArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return program.Misuse(err)
		}
		return nil
	}
}
