package main

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/egress/audit/spool"
	"github.com/sallyport/sallyport/sidecar/agent"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
	"github.com/sallyport/sallyport/sidecar/status/appprobe"
)

// The files that Istio's injector mounts.
const (
	defaultToken  = "/var/run/secrets/tokens/istio-token"
	defaultRoot   = "/var/run/secrets/istio/root-cert.pem"
	defaultLabels = "/etc/istio/pod/labels"
)

// proxyFlags are the flags of "proxy". environment names the variable of each that has one; the first that is set
// counts.
type proxyFlags struct {
	out         agent.Config
	ips         []string
	labels      []string
	metadata    []string
	memory      string
	labelsFile  string
	environment map[string][]string
}

func newProxyFlags() *proxyFlags {
	return &proxyFlags{environment: map[string][]string{
		"name":              {"POD_NAME"},
		"namespace":         {"POD_NAMESPACE"},
		"service-account":   {"SERVICE_ACCOUNT"},
		"ip":                {"INSTANCE_IPS", "INSTANCE_IP"},
		"discovery-addr":    {"DISCOVERY_ADDRESS", "CA_ADDR"},
		"trust-domain":      {"TRUST_DOMAIN"},
		"cluster-id":        {"ISTIO_META_CLUSTER_ID"},
		"mesh-id":           {"ISTIO_META_MESH_ID"},
		"workload":          {"ISTIO_META_WORKLOAD_NAME"},
		"drain-time":        {"TERMINATION_DRAIN_DURATION"},
		"min-drain-time":    {"MINIMUM_DRAIN_DURATION"},
		"concurrency":       {"CONCURRENCY"},
		"dns-addr":          {"DNS_PROXY_ADDR"},
		"envoy":             {"ENVOY"},
		"memory-limit":      {"SALLYPORT_MEMORY_LIMIT"},
		"run-dir":           {"SALLYPORT_RUN_DIR"},
		"audit-spool-bytes": {"SALLYPORT_AUDIT_SPOOL_BYTES"},
		"ender":             {"SALLYPORT_ENDER"},
		"exec-probes":       {"SALLYPORT_EXEC_PROBES"},
	}}
}

func (f *proxyFlags) bind(fs *pflag.FlagSet) {
	fs.SortFlags = false
	c, p := &f.out, &f.out.Proxy
	text := func(to *string, name, value, usage string) {
		fs.StringVar(to, name, value, usage+f.variables(name))
	}
	text(&c.Discovery, "discovery-addr", "", "HOST:PORT of the controller")
	text(&c.CARoot, "ca-root", defaultRoot, "file with the roots that vouch for the controller")
	text(&c.Token, "token", defaultToken, "file with the workload's token, for the first certificate")
	text(&p.Name, "name", "", "the pod")
	text(&p.Namespace, "namespace", "", "the pod's namespace")
	text(&p.ServiceAccount, "service-account", "default", "the pod's service account")
	fs.StringSliceVar(&f.ips, "ip", nil, "the pod's address; the first one is in the node id"+f.variables("ip"))
	fs.StringArrayVar(&f.labels, "label", nil, "KEY=VALUE, the pod's label; repeat it")
	text(&f.labelsFile, "labels-file", defaultLabels, "file with the pod's labels as the downward API writes it, if there is one")
	text(&p.Workload, "workload", "", "what owns the pod, like its Deployment; the pod's name by default")
	text(&c.Envoy, "envoy", "envoy", "Envoy's binary")
	text(&c.RunDir, "run-dir", "/var/run/sallyport", "directory for the socket, the last good configuration and the spool")
	text(&c.DNSAddr, "dns-addr", "127.0.0.1:15053", "where DNS is answered: the application's on a sidecar, Envoy's on the others")
	text(&c.ResolverAddr, "resolver-addr", "127.0.0.1:15054", "where Envoy's DNS is answered on a sidecar")
	fs.StringSliceVar(&c.DNSUpstream, "dns-upstream", nil, "the resolvers to ask, IP[:PORT], tcp://IP or tls://IP#NAME; by default, on a gateway, those of the mesh's settings, else those of /etc/resolv.conf")
	fs.StringArrayVar(&c.AllowPrivate, "allow-private", nil, "a host, *.SUFFIX, * or address range that may be private, loopback, link-local or metadata, beside those of the mesh's settings; others are refused, and recorded; repeat it")
	text(&c.Ender, "ender", "", "on an egress gateway, the socket of \"sallyport-agent end\", which ends open connections that are denied by now; by default the agent does, if it has CAP_NET_ADMIN")
	fs.Uint16Var(&p.AdminPort, "admin-port", 15000, "Envoy's admin interface, on 127.0.0.1")
	fs.Uint16Var(&p.StatsPort, "stats-port", 15090, "Envoy's statistics for Prometheus")
	fs.BoolVar(&p.StatsLocal, "stats-local", false, "show them on 127.0.0.1 alone, rather than to the network")
	text(&c.StatusAddr, "status-addr", ":15020", "metrics, health, debugging")
	text(&c.ReadyAddr, "ready-addr", ":15021", "readiness")
	fs.IntVar(&c.Concurrency, "concurrency", 0, "Envoy's worker threads; 0: two on a sidecar, one for each CPU otherwise"+f.variables("concurrency"))
	fs.Uint32Var(&p.MaxConnections, "max-connections", 100_000, "connections from downstream that Envoy takes at most; fewer where it may not open enough files")
	fs.StringVar(&f.memory, "memory-limit", "", "what agent and Envoy may take together, such as 512Mi: as it is used up, Envoy shortens its patience, resets the streams that hold most and refuses new work; by default the control group's limit, or half of the machine's memory"+f.variables("memory-limit"))
	text(&c.LogLevel, "envoy-log-level", "warning", "Envoy's log level")
	fs.DurationVar(&c.DrainTime, "drain-time", 5*time.Second, "how long connections may take to end when the agent is told to end"+f.variables("drain-time"))
	fs.Int64Var(&c.SpoolBytes, "audit-spool-bytes", spool.DefaultMaxBytes, "how many bytes of audit records may wait on disk for the store; then the oldest are dropped, and a record says how many"+f.variables("audit-spool-bytes"))
	fs.DurationVar(&c.MinDrain, "min-drain-time", 0, "how long to drain even if there are no connections"+f.variables("min-drain-time"))
	text(&p.ClusterID, "cluster-id", "Kubernetes", "the cluster's name in the mesh")
	text(&p.MeshID, "mesh-id", "", "the mesh's name; the trust domain by default")
	text(&p.TrustDomain, "trust-domain", "cluster.local", "the trust domain of the mesh")
	fs.StringArrayVar(&f.metadata, "metadata", nil, "KEY=VALUE, further node metadata; repeat it")
	fs.BoolVar(&c.ExecProbes, "exec-probes", false, "on a machine that joins by a WorkloadGroup: let the group's probe run commands here, as the agent's user"+f.variables("exec-probes"))
	fs.BoolVar(&c.Plaintext, "plaintext", false, "speak to the controller without TLS: debugging, loopback addresses only")
}

func (f *proxyFlags) variables(flag string) string {
	if names := f.environment[flag]; len(names) > 0 {
		return " [" + strings.Join(names, ", ") + "]"
	}
	return ""
}

// config completes the flags from the environment.
func (f *proxyFlags) config(fs *pflag.FlagSet, role string, environment []string) (agent.Config, error) {
	vars := parseEnvironment(environment)
	for _, name := range sortedKeys(f.environment) {
		if fs.Changed(name) {
			continue
		}
		for _, variable := range f.environment[name] {
			if value := vars[variable]; value != "" {
				if err := fs.Set(name, value); err != nil {
					return f.out, fmt.Errorf("%s=%q: %w", variable, value, err)
				}
				break
			}
		}
	}
	c := f.out
	c.Proxy.Role = role
	if !slices.Contains([]string{bootstrap.Sidecar, bootstrap.Router, bootstrap.Waypoint}, role) {
		return c, fmt.Errorf("%q is no kind of proxy: say %s, %s or %s", role, bootstrap.Sidecar, bootstrap.Router, bootstrap.Waypoint)
	}
	if err := applyProxyConfig(fs, &c, vars["PROXY_CONFIG"]); err != nil {
		return c, fmt.Errorf("PROXY_CONFIG: %w", err)
	}
	if c.Concurrency == 0 && role == bootstrap.Sidecar {
		c.Concurrency = 2
	}
	for _, text := range f.ips {
		ip, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			return c, fmt.Errorf("--ip %q: %w", text, err)
		}
		c.Proxy.IPs = append(c.Proxy.IPs, ip)
	}
	f.completeMachine(&c, vars)
	for _, required := range []struct{ flag, value string }{
		{"discovery-addr", c.Discovery}, {"name", c.Proxy.Name}, {"namespace", c.Proxy.Namespace}, {"ip", addresses(c.Proxy.IPs)},
	} {
		if required.value == "" {
			return c, fmt.Errorf("--%s must be given%s", required.flag, f.variables(required.flag))
		}
	}
	if c.SpoolBytes < spool.MinMaxBytes {
		return c, fmt.Errorf("--audit-spool-bytes %d: give at least %d%s", c.SpoolBytes, spool.MinMaxBytes, f.variables("audit-spool-bytes"))
	}
	if c.DrainTime < 0 || c.MinDrain < 0 || c.MinDrain > c.DrainTime {
		return c, fmt.Errorf("--min-drain-time %s and --drain-time %s: the first must not be longer, neither negative", c.MinDrain, c.DrainTime)
	}
	var err error
	if c.Proxy.MemoryLimit, err = parseMemory(f.memory); err != nil {
		return c, fmt.Errorf("--memory-limit %q: %w", f.memory, err)
	}
	if c.AppProbes, err = appprobe.Parse(vars[appprobe.Variable]); err != nil {
		return c, fmt.Errorf("%s: %w", appprobe.Variable, err)
	}
	return c, f.describe(&c.Proxy, vars)
}

// describe adds labels and metadata. Flags win over files and the environment.
func (f *proxyFlags) describe(p *bootstrap.Options, vars map[string]string) error {
	labels, err := podLabels(f.labelsFile)
	if err != nil {
		return err
	}
	if p.Metadata, err = istioMetadata(vars, labels); err != nil {
		return err
	}
	for _, text := range f.labels {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return fmt.Errorf("--label %q: must be KEY=VALUE", text)
		}
		labels[key] = value
	}
	p.Labels = labels
	for _, text := range f.metadata {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return fmt.Errorf("--metadata %q: must be KEY=VALUE", text)
		}
		p.Metadata[key] = value
	}
	return nil
}

// podLabels reads the downward API's form, KEY="VALUE" a line. No file means no labels.
func podLabels(path string) (map[string]string, error) {
	content, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("--labels-file: %w", err)
	}
	return parseLabels(string(content))
}
