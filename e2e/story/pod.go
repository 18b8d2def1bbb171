package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// Ports of a pod that nothing but the pod itself, or its kubelet, uses.
const (
	envoyAdmin = "127.0.0.1:15000"
	podReady   = "http://127.0.0.1:15021/healthz/ready"
)

// Pod is a host with an agent and its Envoy.
type Pod struct {
	scene  *Scene
	plane  Plane
	host   *world.Host
	role   string // "sidecar", "router" or "waypoint"
	name   string
	ns, sa string
	ip     netip.Addr
	labels []string
	flags  []string       // of the agent, beside the usual ones
	ends   bool           // beside it is who ends its connections
	by     []string       // the command that the agent is started by, as another container's rules; none starts it as it is
	dir    string         // of the proxy's user
	agent  *world.Process // nil when it does not run
}

// Plane is what a proxy has of its control plane.
type Plane interface {
	Address() netip.AddrPort
	Token(ctx context.Context, ns, serviceAccount, pod string) (string, error)
	TrustBundle(context.Context) ([]byte, error)
}

func (p *Pod) controlPlane() Plane {
	if p.plane != nil {
		return p.plane
	}
	return p.scene.Controller
}

// prepare does what happens before the proxy's container starts: the identity is mounted and, with a sidecar, the
// init container redirects the pod's traffic.
func (p *Pod) prepare(ctx context.Context) error {
	dir, err := p.scene.Run.MkdirOwned(p.host.Name, world.ProxyUID)
	if err != nil {
		return err
	}
	p.dir = dir
	plane := p.controlPlane()
	tok, err := plane.Token(ctx, p.ns, p.sa, p.name)
	if err != nil {
		return err
	}
	root, err := plane.TrustBundle(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(p.mount("token", []byte(tok)), p.mount("root-cert.pem", root)); err != nil {
		return err
	}
	if p.ends {
		return p.startEnder(ctx)
	}
	if p.role != "sidecar" {
		return nil
	}
	_, err = p.host.Run(ctx, 0, p.scene.Programs.Agent, "init",
		"-p", "15001", "-z", "15006", "-u", fmt.Sprint(world.ProxyUID), "-m", "REDIRECT",
		"-i", "*", "-x", "", "-b", "*", "-d", "15090,15020")
	return err
}

// ender is the socket of who ends the pod's connections.
func (p *Pod) ender() string { return filepath.Join(p.dir+"-ender", "socket") }

// startEnder starts the pod's other container: a process of root's with the right to end connections and no other, and a folder between
// the two whose group is the pod's, as an emptyDir's is.
func (p *Pod) startEnder(ctx context.Context) error {
	dir := filepath.Dir(p.ender())
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chown(dir, 0, world.ProxyUID), os.Chmod(dir, os.ModeSetgid|0o775)); err != nil {
		return err
	}
	if _, err := p.host.Start(p.host.Name+"-ender", 0, "setpriv", "--bounding-set", "-all,+net_admin", "--regid", fmt.Sprint(world.ProxyUID), "--clear-groups", "--no-new-privs", "--",
		p.scene.Programs.Agent, "end", "--socket", p.ender()); err != nil {
		return err
	}
	return world.Within(ctx, time.Minute, func() error {
		_, err := os.Stat(p.ender())
		return err
	})
}

// mount writes a file that only the proxy's user may read.
func (p *Pod) mount(name string, content []byte) error {
	path := filepath.Join(p.dir, name)
	return errors.Join(os.WriteFile(path, content, 0o600), os.Chown(path, world.ProxyUID, world.ProxyUID))
}

// up starts the agent unless it runs, and waits until the pod is ready.
func (p *Pod) up(ctx context.Context) error {
	if p.agent != nil {
		return nil
	}
	args := append(slices.Clone(p.by),
		p.scene.Programs.Agent, "proxy", p.role,
		"--discovery-addr", p.controlPlane().Address().String(),
		"--ca-root", filepath.Join(p.dir, "root-cert.pem"), "--token", filepath.Join(p.dir, "token"),
		"--name", p.name, "--namespace", p.ns, "--service-account", p.sa, "--ip", p.ip.String(),
		"--envoy", p.scene.Programs.Envoy, "--run-dir", filepath.Join(p.dir, "run"),
		"--dns-upstream", netip.AddrPortFrom(world.NameServerAddr, 53).String(), "--concurrency", "1",
	)
	if p.ends {
		args = append(args, "--ender", p.ender())
	}
	for _, label := range p.labels {
		args = append(args, "--label", label)
	}
	args = append(args, p.flags...)
	agent, err := p.host.Start(p.host.Name+"-agent", world.ProxyUID, args...)
	if err != nil {
		return err
	}
	p.agent = agent
	return ready(ctx, p.host, agent, podReady)
}

// kill ends agent and Envoy at once, as the node's power switch does.
func (p *Pod) kill(ctx context.Context) error {
	p.agent = nil
	return p.host.KillUser(ctx, world.ProxyUID)
}

// stats gives Envoy's counters and gauges whose names match the regular expression.
func (p *Pod) stats(ctx context.Context, filter string) (map[string]uint64, error) {
	url := "http://" + envoyAdmin + "/stats?format=json&filter=" + filter
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.host.HTTPClient().Do(req)
	if err != nil {
		return nil, fmt.Errorf("stats of %s: %w", p.name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	var body struct {
		Stats []struct {
			Name  string `json:"name"`
			Value any    `json:"value"`
		} `json:"stats"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		return nil, fmt.Errorf("stats of %s: %s: %w", p.name, url, err)
	}
	values := map[string]uint64{}
	for _, s := range body.Stats {
		if v, ok := s.Value.(float64); ok {
			values[s.Name] = uint64(v)
		}
	}
	return values, nil
}

// stat is the sum of the counters whose names match and end with the suffix.
func (p *Pod) stat(ctx context.Context, filter, suffix string) (uint64, error) {
	values, err := p.stats(ctx, filter)
	if err != nil {
		return 0, err
	}
	var sum uint64
	for name, v := range values {
		if strings.HasSuffix(name, suffix) {
			sum += v
		}
	}
	return sum, nil
}
