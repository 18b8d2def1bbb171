package agent

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
	"github.com/sallyport/sallyport/sidecar/status/appprobe"
	"github.com/sallyport/sallyport/xds/ondemand"
)

// Config says who the proxy is, where its controller is and where its files are.
type Config struct {
	Log    *slog.Logger
	Output io.Writer // Envoy's log lines

	// Proxy is the bootstrap's input. Run fills in Socket, Questions and Resolver, MemoryLimit where it is 0, and lowers MaxConnections to
	// what the number of open files allows.
	Proxy bootstrap.Options

	Discovery string // HOST:PORT of the controller
	CARoot    string // file with the roots that vouch for the controller
	Token     string // file with the workload's token
	Plaintext bool   // no TLS, no identity: debugging; loopback controllers only

	Envoy       string // path of the binary
	Concurrency int    // worker threads; 0 leaves it to Envoy: one for each CPU
	LogLevel    string // Envoy's
	DrainTime   time.Duration
	MinDrain    time.Duration

	RunDir       string
	SpoolBytes   int64    // of audit records that wait for the store; 0: spool.DefaultMaxBytes
	DNSAddr      string   // HOST:PORT: the applications' names on a sidecar, Envoy's resolver otherwise
	ResolverAddr string   // HOST:PORT of Envoy's resolver on a sidecar
	DNSUpstream  []string // as in dnsproxy.Config.Upstreams; none for the controller's, else those of /etc/resolv.conf
	// AllowPrivate are the hosts (NAME, *.SUFFIX, *), addresses and address ranges that Envoy may be told although they
	// are private, loopback, link-local or a metadata service's, beside those that the controller names. Others are taken
	// out of answers, and recorded.
	AllowPrivate []string
	// Ender is the path of the socket of who ends connections (sidecar/tunnels/ender); "": the agent itself, if it has the right to.
	Ender      string
	StatusAddr string
	ReadyAddr  string
	AppProbes  appprobe.Probes // the application's, which the agent performs for the kubelet
	// ExecProbes lets the probe of a machine's WorkloadGroup run commands.
	ExecProbes bool

	// Pods makes what a node's agent serves its pods by; it is that role's alone.
	Pods func(PodParts) (Pods, error)

	// Records makes a reader for a stream of Envoy's access log service.
	Records func() LogReader
}

// ErrConfig marks errors that the caller mends by calling differently.
var ErrConfig = errors.New("configuration")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
}

// check completes the bootstrap's options.
func (c *Config) check() error {
	if c.RunDir == "" || c.Envoy == "" {
		return invalid("the run directory and Envoy's path must be given")
	}
	host, _, err := net.SplitHostPort(c.Discovery)
	if err != nil {
		return invalid("discovery address %q: must be HOST:PORT", c.Discovery)
	}
	if ip, err := netip.ParseAddr(host); c.Plaintext && (err != nil || !ip.IsLoopback()) && host != "localhost" {
		return invalid("discovery address %q: without TLS only a loopback address is allowed", c.Discovery)
	}
	if c.Proxy.IPs == nil {
		return invalid("ip: the proxy needs at least one address")
	}
	dir, err := filepath.Abs(c.RunDir)
	if err != nil {
		return fmt.Errorf("run directory %q: %w", c.RunDir, err)
	}
	c.RunDir = dir
	c.Proxy.Socket = filepath.Join(dir, "agent.sock")
	if len(c.Proxy.Socket) > maxSocketPath {
		return invalid("run directory %q: the path of its socket would have %d bytes, the kernel takes %d", dir, len(c.Proxy.Socket), maxSocketPath)
	}
	resolver := c.DNSAddr
	if c.node() != (c.Pods != nil) {
		return invalid("role %q: who serves a node's pods goes with the role %s", c.Proxy.Role, bootstrap.Ztunnel)
	}
	if c.node() && c.Plaintext {
		return invalid("a node's agent shows its pods' certificates, which takes TLS")
	}
	if c.forApps() {
		resolver = c.ResolverAddr
	}
	if c.Proxy.Resolver, err = netip.ParseAddrPort(resolver); err != nil || c.Proxy.Resolver.Port() == 0 {
		return invalid("resolver address %q: must be IP:PORT", resolver)
	}
	c.Proxy.DNSCapture = c.forApps()
	if chosen, ok := c.Proxy.Metadata[ondemand.FetchMetadata]; ok && !slices.Contains([]any{ondemand.OnUse, ondemand.All, ondemand.FetchAsMesh}, chosen) {
		return invalid("metadata %s (ISTIO_META_%[1]s) %[2]q: write %[3]s, %[4]s or %[5]s", ondemand.FetchMetadata, chosen, ondemand.OnUse, ondemand.All, ondemand.FetchAsMesh)
	}
	if _, err := inside.Parse(c.AllowPrivate); err != nil {
		return invalid("allow-private %w", err)
	}
	return nil
}

// maxSocketPath is sun_path without its terminator, unix(7).
const maxSocketPath = 107

func (c *Config) sidecar() bool { return c.Proxy.Role == bootstrap.Sidecar }

// node says whether it is the agent of a node, for pods without sidecars.
func (c *Config) node() bool { return c.Proxy.Role == bootstrap.Ztunnel }

// forApps says whether it answers the DNS of applications.
func (c *Config) forApps() bool { return c.sidecar() || c.node() }

func (c *Config) admin() string { return "127.0.0.1:" + strconv.Itoa(int(c.Proxy.AdminPort)) }

func (c *Config) path(name ...string) string {
	return filepath.Join(append([]string{c.RunDir}, name...)...)
}

// envoyArgs are Envoy's arguments. There is no hot restart: a new Envoy gets its state from the agent.
func (c *Config) envoyArgs() []string {
	args := []string{
		"-c", c.path("envoy.json"), "--disable-hot-restart",
		"--drain-time-s", strconv.Itoa(int(c.DrainTime.Seconds())), "--drain-strategy", "immediate",
		"--log-level", c.LogLevel,
		"--component-log-level", "misc:error", // else a line for each message of a kind that Envoy calls unfinished: dozens at each change
	}
	if c.Concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(c.Concurrency))
	}
	return args
}
