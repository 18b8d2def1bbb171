package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/cmd/sallyport/controlplane"
	"github.com/sallyport/sallyport/config/source/dir"
	"github.com/sallyport/sallyport/config/source/machines"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/identity/ca"
)

// controllerFlags are those of "controller".
type controllerFlags struct {
	configDir     string
	cluster       clusterFlags
	webhooks      string
	injection     string
	gateways      string
	classDefaults bool
	remote        bool
	logLevel      string
	audit         bool
	retention     time.Duration
	console       string
	out           controlplane.Config
}

func controllerCommand() *cobra.Command {
	f := &controllerFlags{}
	cmd := &cobra.Command{
		Use:   "controller [--config-dir DIR | --kubeconfig FILE]",
		Short: "Run the control plane",
		Long: `Run the control plane: it reads configuration, programs proxies over xDS, issues their
certificates, and takes their audit records.

Agents come by --secure-xds-addr, with a token (see "sallyport token") or a certificate; they
need DATA/root-cert.pem as --ca-root. The plaintext port is for debugging on this machine.

Without --config-dir the configuration is a Kubernetes cluster's: the one of --kubeconfig, or the
one that this process runs in. Then agents come with projected service account tokens (audience
istio-ca), the CA is kept in Secrets, and the API server asks about pods and objects at
--webhook-addr. Several replicas may run: all serve, one of them writes.

The audit records go to a server process of their own, which the controller starts and
watches; it keeps them in DATA/audit. It is asked with "sallyport audit --data DATA".

SIGTERM ends it. SIGHUP does where it has a terminal; a service that gets one says that nothing
is read again, and goes on: files are read as they change.`,
		Example: `  sallyport controller --config-dir ./mesh --data /var/lib/sallyport
  sallyport controller --config-dir ./mesh --mesh-config mesh.yaml --host controller.example
  sallyport controller --kubeconfig ~/.kube/config --data /var/lib/sallyport --webhook-addr ''`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.configDir, "config-dir", "", "directory of YAML files, watched")
	f.cluster.add(fs)
	fs.StringVar(&f.out.MeshConfigFile, "mesh-config", "", "file with Istio's MeshConfig, watched")
	auditDataFlag(cmd, &f.out.DataDir)
	fs.StringVar(&f.out.XDSAddr, "xds-addr", "127.0.0.1:15010", "plaintext xDS for debugging, loopback only; empty for none")
	fs.StringVar(&f.out.SecureAddr, "secure-xds-addr", ":15012", "xDS, certificates and audit records over TLS")
	fs.StringVar(&f.out.AdminAddr, "admin-addr", "127.0.0.1:15014", "/readyz, /healthz, /metrics, /debug; empty for none")
	fs.StringVar(&f.out.HealthAddr, "health-addr", "", "/readyz, /healthz, /metrics for kubelets and Prometheus, like :8080; empty for none")
	fs.StringVar(&f.webhooks, "webhook-addr", ":15017", "in a cluster: where the API server asks about pods and objects; empty for none")
	fs.StringVar(&f.injection, "injection-config", "", "in a cluster: file with the injector's settings, watched; without it no pod gets a proxy")
	fs.StringVar(&f.gateways, "gateway-config", "", "in a cluster: file with the settings of gateways that are made of the Gateway API's Gateways; without it none is")
	fs.BoolVar(&f.classDefaults, "gateway-class-defaults", false, "in a cluster: a ConfigMap of the control plane's namespace with the label gateway.istio.io/defaults-for-class says how Gateways of that class are deployed; takes the right to list and watch all ConfigMaps there")
	fs.BoolVar(&f.remote, "remote-clusters", false, "in a cluster: read the clusters that Secrets of the system namespace with the label istio/multiCluster name")
	fs.StringSliceVar(&f.out.Hosts, "host", nil, "further name or address that agents reach the secure port by; repeat it")
	fs.StringVar(&f.out.CACertsDir, "ca-certs", "", "directory with a CA to use, in the layout of Istio's cacerts secret")
	fs.DurationVar(&f.out.CertTTL, "cert-ttl", ca.DefaultTTL, "lifetime of workload certificates, at least 1m")
	fs.DurationVar(&f.out.MachineGrace, "machine-grace", machines.Grace, "how long a machine that joined by a WorkloadGroup stays an endpoint when its agent is away")
	fs.BoolVar(&f.audit, "audit", true, "run the audit server")
	fs.StringVar(&f.out.AuditAddress, "audit-address", "", "in a cluster: the audit server of another pod (HOST:PORT), with --audit=false")
	fs.DurationVar(&f.retention, "audit-retention", 30*24*time.Hour, "how long audit records are kept; without it sallyport.audit.retention of the mesh settings counts")
	fs.StringVar(&f.console, "console-addr", "", "where the audit server shows its page, like 127.0.0.1:8181; empty for none")
	fs.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

func (f *controllerFlags) run(cmd *cobra.Command) error {
	if f.out.CertTTL < ca.MinTTL {
		return program.Misuse(fmt.Errorf("--cert-ttl %s: the shortest is %s", f.out.CertTTL, ca.MinTTL))
	}
	if f.out.MachineGrace <= 0 {
		return program.Misuse(fmt.Errorf("--machine-grace %s: write a time, such as %s", f.out.MachineGrace, machines.Grace))
	}
	if f.out.SecureAddr == "" {
		return program.Misuse(errors.New("--secure-xds-addr: agents come by it, so there is no controller without; to keep it from others, name an address such as 127.0.0.1:15012"))
	}
	log, err := logger(f.logLevel)
	if err != nil {
		return err
	}
	cfg := f.out
	if cfg.DataDir, err = auditData(cfg.DataDir); err != nil {
		return err
	}
	cfg.Log = log
	if err := f.configuration(&cfg, log); err != nil {
		return err
	}
	cfg.Listening = func(a controlplane.Addresses) {
		log.Info("listening", "health", a.Health, "webhooks", a.Webhooks, "secureXDS", a.Secure, "xds", a.XDS, "admin", a.Admin, "caRoot", filepath.Join(cfg.DataDir, ca.BundleFile))
	}
	g, ctx := errgroup.WithContext(cmd.Context())
	if f.audit && cfg.AuditAddress != "" {
		return program.Misuse(errors.New("--audit-address names an audit server, and --audit runs one: give --audit=false with it"))
	}
	if f.audit {
		cfg.AuditSocket = filepath.Join(cfg.DataDir, query.SocketName)
		retention, err := keepRecords(cmd.Flags(), "audit-retention", f.retention, cfg.MeshConfigFile)
		if err != nil {
			return err
		}
		server, err := auditServer(log, cfg.DataDir, f.console, retention)
		if err != nil {
			return err
		}
		g.Go(func() error { return server.keep(ctx) })
	}
	g.Go(func() error { return runPlane(ctx, cfg) })
	return g.Wait()
}

// lastGood is the folder of the data folder in which objects of files outlast a restart (dir.Options).
const lastGood = "last-good"

// configuration says where it comes from: a directory or a cluster.
func (f *controllerFlags) configuration(cfg *controlplane.Config, log *slog.Logger) error {
	if f.configDir != "" {
		if f.cluster.kubeconfig != "" {
			return program.Misuse(errors.New("--config-dir and --kubeconfig: give one of the two"))
		}
		if err := program.Directory("--config-dir", f.configDir); err != nil {
			return err
		}
		cfg.Source = dir.New(f.configDir, dir.Options{Logger: log, Memory: filepath.Join(cfg.DataDir, lastGood)})
		return nil
	}
	if f.cluster.kubeconfig == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return program.Misuse(errors.New("where is the configuration? give --config-dir DIR, or --kubeconfig FILE; this is no pod of a cluster"))
	}
	if cfg.CACertsDir != "" {
		return program.Misuse(errors.New("--ca-certs: in a cluster, the Secret cacerts in the control plane's namespace holds a CA to use"))
	}
	config, err := f.cluster.connect()
	if err != nil {
		return err
	}
	cfg.Cluster = &controlplane.Cluster{
		REST: config, Namespace: f.cluster.namespace, Service: registry.ControlPlaneService, Replica: f.cluster.replica(),
		WebhookAddr: f.webhooks, InjectionConfigFile: f.injection, GatewayConfigFile: f.gateways, GatewayClassDefaults: f.classDefaults, RemoteClusters: f.remote,
	}
	return nil
}

// noArguments refuses what a command takes none of.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return program.Misuse(fmt.Errorf("%q: unexpected argument; see sallyport %s --help", args[0], cmd.Name()))
	}
	return nil
}

func logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, program.Misuse(fmt.Errorf("--log-level %q: must be debug, info, warn or error", level))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})), nil
}
