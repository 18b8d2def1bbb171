package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/e2e/freeport"
	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/sidecar/bootstrap"
	"github.com/sallyport/sallyport/sidecar/relay"
	"github.com/sallyport/sallyport/xds/ondemand"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(besideDir); dir != "" {
		if err := standBeside(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaks.Verify(m)
}

// pod is an agent with a real Envoy, on free ports and in its own directory.
type pod struct {
	t      *testing.T
	cfg    Config
	port   int // of the listener that the controller gives it
	cancel context.CancelFunc
	ended  chan error
	log    *buffer
}

func newPod(t *testing.T, discovery string) *pod {
	t.Helper()
	ports := freePorts(t, 7)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	p := &pod{t: t, port: ports[0], log: new(buffer)}
	p.cfg = Config{
		Log: slog.New(slog.NewTextHandler(p.log, nil)), Output: p.log,
		Proxy: bootstrap.Options{
			Role: bootstrap.Sidecar, Name: "sleep-1", Namespace: "team-a", ServiceAccount: "sleep",
			IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, AdminPort: uint16(ports[1]), StatsPort: uint16(ports[2]),
		},
		Discovery: discovery, Plaintext: true, Envoy: envoyBinary(t), Concurrency: 1, LogLevel: "warning",
		RunDir: runDir(t), DNSAddr: at(3), ResolverAddr: at(4), StatusAddr: at(5), ReadyAddr: at(6),
		DNSUpstream: []string{"127.0.0.1:9"},
		Records:     func() LogReader { return new(paths) },
	}
	t.Cleanup(func() {
		if p.cancel != nil {
			p.stop()
		}
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	return p
}

// runDir is short, for the socket's path is bounded.
func runDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "pod") //nolint:usetesting // t.TempDir names the test, which is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (p *pod) start() {
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.ended = make(chan error, 1)
	go func() { p.ended <- Run(ctx, p.cfg) }()
}

func (p *pod) stop() {
	p.t.Helper()
	p.cancel()
	p.cancel = nil
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("the agent ended with %v", err)
		}
	case <-time.After(2 * time.Minute):
		p.t.Fatal("the agent does not end")
	}
	if _, err := os.Stat(filepath.Join(p.cfg.RunDir, "agent.sock")); !os.IsNotExist(err) {
		p.t.Errorf("the socket was left behind: %v", err)
	}
	if conn, err := net.Dial("tcp", p.cfg.admin()); err == nil {
		_ = conn.Close()
		p.t.Error("Envoy was left behind")
	}
}

func (p *pod) ready() error {
	status, body, err := get("http://" + p.cfg.ReadyAddr + "/healthz/ready")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("not ready: %d %s %w", status, body, err)
	}
	return nil
}

// answers tells whether Envoy's listener answers with a text.
func (p *pod) answers(text string) func() error {
	return func() error {
		_, body, err := get(fmt.Sprintf("http://127.0.0.1:%d/", p.port))
		if err != nil || body != text {
			return fmt.Errorf("Envoy answers %q, %w, want %q", body, err, text)
		}
		return nil
	}
}

func (p *pod) relay() relay.Status {
	p.t.Helper()
	_, body, err := get("http://" + p.cfg.StatusAddr + "/debug/relay?versions")
	var status relay.Status
	if err := errors.Join(err, json.Unmarshal([]byte(body), &status)); err != nil {
		p.t.Fatal(err)
	}
	return status
}

func (p *pod) typeStatus(url string) relay.TypeStatus {
	p.t.Helper()
	for _, t := range p.relay().Types {
		if t.Type == url {
			return t
		}
	}
	return relay.TypeStatus{}
}

// refuses asks the application's DNS for a name that nobody registered.
func (p *pod) refuses(host string) func() error {
	return func() error {
		reply, err := dns.Exchange(new(dns.Msg).SetQuestion(host, dns.TypeA), p.cfg.DNSAddr)
		if err != nil {
			return err
		}
		if reply.Rcode != dns.RcodeNameError {
			return fmt.Errorf("%s: %s", host, dns.RcodeToString[reply.Rcode])
		}
		return nil
	}
}

func TestLifeOfAPod(t *testing.T) {
	c := newController(t)
	p := newPod(t, c.addr)
	c.set(relay.ClusterType, map[string]types.Resource{"a": cluster("a", false)})
	c.set(relay.ListenerType, podsListeners(t, p.port))
	c.set(relay.RouteType, map[string]types.Resource{"80": route("one")})
	c.set(name.TypeURL, map[string]types.Resource{"external.com": host("external.com"), "*": refuseRest()})
	p.start()
	eventually(t, p.ready)
	eventually(t, p.answers("one"))
	c.mu.Lock()
	if id := c.node.GetId(); id != "sidecar~10.0.0.1~sleep-1.team-a~team-a.svc.cluster.local" || len(c.node.GetExtensions()) > 0 ||
		c.node.GetUserAgentName() != "envoy" || c.node.GetMetadata().GetFields()["NAMESPACE"].GetStringValue() != "team-a" {
		t.Errorf("node %v", c.node)
	}
	c.mu.Unlock()

	// A bad cluster between good ones: the reason reaches the controller, the good ones are kept.
	c.set(relay.ClusterType, map[string]types.Resource{"b": cluster("b", false), "bad": cluster("bad", true), "c": cluster("c", false)})
	eventually(t, func() error {
		if status := p.typeStatus(relay.ClusterType); len(c.nacks()) == 0 || status.Accepted != 3 || status.Rejected["bad"].Reason == "" {
			return fmt.Errorf("nacks %v, status %+v", c.nacks(), status)
		}
		return nil
	})
	if reason := c.nacks()[0]; !strings.Contains(reason, "cluster(s) bad") {
		t.Errorf("the controller was told %q", reason)
	}
	c.set(relay.RouteType, map[string]types.Resource{"80": route("two")})
	eventually(t, p.answers("two"))
	keepsNames := func() error {
		if accepted := p.typeStatus(name.TypeURL).Accepted; accepted != 2 {
			return fmt.Errorf("%d names are kept", accepted)
		}
		return nil
	}
	eventually(t, keepsNames)
	eventually(t, p.measures)

	eventually(t, p.refuses("nobody.test."))

	// The controller dies, then the pod restarts alone.
	c.stop()
	p.stop()
	p.start()
	eventually(t, p.refuses("nobody.test."))
	eventually(t, p.answers("two"))
	eventually(t, p.ready)
	if status := p.relay(); !status.FromDisk || status.Connected {
		t.Errorf("status %+v", status)
	}
	eventually(t, keepsNames)

	// It comes back: only what differs travels.
	c.set(relay.ClusterType, map[string]types.Resource{"d": cluster("d", false)})
	c.set(relay.RouteType, map[string]types.Resource{"80": route("three")})
	c.start()
	eventually(t, p.answers("three"))
	eventually(t, func() error {
		if got := p.typeStatus(relay.ClusterType).Accepted; got != 4 {
			return fmt.Errorf("%d clusters", got)
		}
		return nil
	})
	for _, equal := range []string{"a", "b", "c", podListeners[0], "external.com"} {
		if c.sentOf(equal) > 0 {
			t.Errorf("%s was sent again", equal)
		}
	}
	if c.sentOf("d") != 1 || c.sentOf("80") != 1 {
		t.Errorf("sent: %v", c.sent)
	}
	p.stop()
}

// measures says whether there are all of the agent's and of Envoy's metrics, with a cluster's whole name.
func (p *pod) measures() error {
	_, body, err := get("http://" + p.cfg.StatusAddr + "/metrics")
	if err != nil {
		return err
	}
	for _, want := range []string{
		"sallyport_agent_envoy_synced 1", "sallyport_agent_nacks_total", "envoy_server_live", `envoy_cluster_name="xds-grpc"`,
		"sallyport_agent_controller_connected 1", "sallyport_agent_audit_spool_records", "sallyport_agent_audit_spool_dropped_total 0", "sallyport_agent_audit_refusing 0",
		"sallyport_agent_access_log_dropped_total 0", "sallyport_agent_dns_refused_hosts 0", `sallyport_dns_queries_total{`, "sallyport_dns_cache_bytes", "sallyport_dns_names 1",
	} {
		if !strings.Contains(body, want) {
			return fmt.Errorf("metrics lack %s", want)
		}
	}
	return nil
}

func TestSecondAgentIsRefused(t *testing.T) {
	c := newController(t)
	c.set(relay.ClusterType, map[string]types.Resource{"a": cluster("a", false)})
	p := newPod(t, c.addr)
	p.start()
	eventually(t, func() error {
		_, _, err := get("http://" + p.cfg.ReadyAddr + "/healthz/ready")
		return err
	})
	second := newPod(t, c.addr)
	second.cfg.RunDir = p.cfg.RunDir
	if err := Run(context.Background(), second.cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("got %v", err)
	}
	p.stop()
}

func TestRefusedConfig(t *testing.T) {
	good := newPod(t, "127.0.0.1:15010").cfg
	for want, breakIt := range map[string]func(*Config){
		"must be HOST:PORT":    func(c *Config) { c.Discovery = "localhost" },
		"only a loopback":      func(c *Config) { c.Discovery = "10.0.0.1:15010" },
		"the run directory":    func(c *Config) { c.RunDir = "" },
		"at least one address": func(c *Config) { c.Proxy.IPs = nil },
		"resolver address":     func(c *Config) { c.ResolverAddr = "localhost" },
		"the path of its sock": func(c *Config) { c.RunDir = "/" + strings.Repeat("x", 100) },
		"SALLYPORT_FETCH":      func(c *Config) { c.Proxy.Metadata = map[string]any{ondemand.FetchMetadata: "never"} },
		"name: must not be em": func(c *Config) { c.Proxy.Name = "" },
	} {
		cfg := good
		breakIt(&cfg)
		if err := Run(context.Background(), cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func get(url string) (status int, body string, err error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// eventually waits for processes of others.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	over := time.After(2 * time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			t.Fatal(err)
		}
	}
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		port, err := freeport.Port()
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	return ports
}

func envoyBinary(t *testing.T) string {
	t.Helper()
	cache, _ := os.UserCacheDir()
	for _, path := range []string{os.Getenv("ENVOY"), "../../bin/envoy", filepath.Join(cache, "sallyport/envoy-1.40.0/envoy")} {
		if _, err := os.Stat(path); path != "" && err == nil {
			return path
		}
	}
	t.Skip("no Envoy: run make envoy")
	return ""
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
