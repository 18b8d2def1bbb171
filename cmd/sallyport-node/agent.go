package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/agent"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
	"github.com/sallyport/sallyport/sidecar/node"
	"github.com/sallyport/sallyport/sidecar/node/cni"
)

// agentCommand serves a node's pods without sidecars.
func agentCommand() *cobra.Command {
	c := agent.Config{Proxy: bootstrap.Options{Role: bootstrap.Ztunnel, TrustDomain: "cluster.local"}}
	var ip string
	var k kubernetesFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Serve this node's pods that have no sidecars, by one Envoy",
		Long: `Serve this node's pods that have no sidecars, by one Envoy.

Pods are in the mesh that are labelled istio.io/dataplane-mode=ambient, or whose namespace is; the label "none" on a pod lets it out. Which
of them are, and who they are, the controller says. Where their networks are, the CNI plugin does ("sallyport-node cni"), or
"sallyport-node pod add". In each pod's network the agent writes the rules that lead its traffic to Envoy, opens Envoy's listeners and
answers DNS; each pod's traffic leaves with its own certificate and address.

With --cni-bin-dir and --cni-conf-dir the agent installs that plugin, once it can serve pods, and keeps it installed. When it ends, the plugin
stays, and pods do not start until the agent is back; but where the DaemonSet that --daemonset names is gone, or its rights are, the mesh is
being removed: then the plugin goes, and all pods are let out.

Two agents of one node, with two names, do not disturb each other: the new one serves all pods beside the old one, takes the node over when it
can, and the old one, told to end, takes nothing new from then on and waits for what is open, --drain-time at most.

Envoy enters networks: it needs SYS_ADMIN, and NET_RAW or NET_ADMIN.`,
		Example: `  sallyport-node agent --discovery-addr sallyport.istio-system.svc:15012 --name $POD_NAME --namespace $POD_NAMESPACE \
    --service-account sallyport-node --ip $INSTANCE_IP --ca-root /etc/ca/root-cert.pem --token /var/run/secrets/tokens/istio-token`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			addr, err := netip.ParseAddr(ip)
			if err != nil {
				return program.Misuse(fmt.Errorf("--ip %q: %w", ip, err))
			}
			if c.Proxy.Name == "" || c.Proxy.Name != filepath.Base(c.Proxy.Name) {
				return program.Misuse(fmt.Errorf("--name %q: say which pod the agent is", c.Proxy.Name))
			}
			path, err := exec.LookPath(c.Envoy)
			if err != nil {
				return program.Misuse(fmt.Errorf("--envoy: %w", err))
			}
			c.Envoy, c.Proxy.IPs, c.Proxy.IPv6 = path, []netip.Addr{addr}, node.HasIPv6()
			c.Log, c.Output = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), cmd.ErrOrStderr()
			self := envoylog.Node{ID: bootstrap.NewNode(c.Proxy).ID, Workload: record.Workload{
				Principal: fmt.Sprintf("spiffe://%s/ns/%s/sa/%s", c.Proxy.TrustDomain, c.Proxy.Namespace, c.Proxy.ServiceAccount),
				Namespace: c.Proxy.Namespace, ServiceAccount: c.Proxy.ServiceAccount, Name: c.Proxy.Name,
			}}
			c.Records = func() agent.LogReader { return envoylog.NewReader(self) }
			shared, err := filepath.Abs(c.RunDir)
			if err != nil {
				return err
			}
			install, err := k.install(c, shared)
			if err != nil {
				return program.Misuse(err)
			}
			own, release, err := node.Claim(cmd.Context(), shared, c.Proxy.Name)
			if err != nil {
				return err
			}
			defer release()
			c.RunDir = own
			var pods *node.Pods
			c.Pods = func(parts agent.PodParts) (agent.Pods, error) {
				pods, err = node.New(node.Config{
					Log: parts.Log, RunDir: shared, Folder: filepath.Join(shared, "node"), Tables: filepath.Join(own, "tables"), Certificates: parts.Certificates, DNS: parts.DNS,
					Settled: parts.Settled, Warming: parts.Warming, HandIn: parts.HandIn, Found: k.found, HostNetwork: k.hostNetwork, Plugin: install,
				})
				return pods, err
			}
			err = agent.Run(cmd.Context(), c)
			if errors.Is(err, agent.ErrConfig) {
				return program.Misuse(err)
			}
			if install != nil && pods != nil {
				err = errors.Join(err, k.leave(c, install, pods))
			}
			return err
		},
	}
	bindAgent(cmd.Flags(), &c, &ip)
	k.bind(cmd.Flags())
	return cmd
}

func bindAgent(fs *pflag.FlagSet, c *agent.Config, ip *string) {
	fs.SortFlags = false
	p := &c.Proxy
	fs.StringVar(&c.Discovery, "discovery-addr", "", "HOST:PORT of the controller")
	fs.StringVar(&c.CARoot, "ca-root", "/etc/sallyport/ca/root-cert.pem", "file with the roots that vouch for the controller")
	fs.StringVar(&c.Token, "token", "/var/run/secrets/tokens/istio-token", "file with the agent's token")
	fs.StringVar(&p.Name, "name", "", "the agent's pod, which says which node it is on")
	fs.StringVar(&p.Namespace, "namespace", "", "its namespace")
	fs.StringVar(&p.ServiceAccount, "service-account", "sallyport-node", "its service account, one of sallyport.nodeAgents")
	fs.StringVar(ip, "ip", "", "its address")
	fs.StringVar(&p.TrustDomain, "trust-domain", "cluster.local", "the trust domain of the mesh")
	fs.StringVar(&c.Envoy, "envoy", "envoy", "Envoy's binary")
	fs.StringVar(&c.RunDir, "run-dir", cni.RunDir, "directory of all agents of the node, one of which the CNI plugin finds there; each has a folder for its last good configuration and its spool")
	fs.StringVar(&c.ResolverAddr, "resolver-addr", "127.0.0.1:15054", "where Envoy's DNS is answered")
	fs.StringSliceVar(&c.DNSUpstream, "dns-upstream", nil, "the resolvers to ask, IP[:PORT], tcp://IP or tls://IP#NAME; by default those of /etc/resolv.conf")
	fs.StringArrayVar(&c.AllowPrivate, "allow-private", nil, "a host, *.SUFFIX, * or address range that may be private, loopback, link-local or metadata; repeat it")
	fs.Uint16Var(&p.AdminPort, "admin-port", 15000, "Envoy's admin interface, on 127.0.0.1")
	fs.Uint16Var(&p.StatsPort, "stats-port", 15090, "Envoy's statistics for Prometheus")
	fs.StringVar(&c.StatusAddr, "status-addr", ":15020", "metrics, health, debugging")
	fs.StringVar(&c.ReadyAddr, "ready-addr", ":15021", "readiness")
	fs.IntVar(&c.Concurrency, "concurrency", 0, "Envoy's worker threads; 0: one for each CPU")
	fs.Uint32Var(&p.MaxConnections, "max-connections", 100_000, "connections that Envoy takes at most, of all pods together")
	fs.StringVar(&c.LogLevel, "envoy-log-level", "warning", "Envoy's log level")
	fs.DurationVar(&c.DrainTime, "drain-time", 5*time.Second, "how long connections may take to end when the agent is told to end")
}
