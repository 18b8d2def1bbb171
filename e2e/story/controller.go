package story

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// The controller's addresses.
var (
	secureXDS = netip.AddrPortFrom(world.ControlAddr, 15012)
	admin     = "127.0.0.1:15014"
)

// readyWithin is how long a program may take from its start until it says that it is ready, on a machine with much else to do.
const readyWithin = 2 * time.Minute

// FetchVariable is the environment variable that holds scenes' sallyport.fetch: with "onUse" all tests are about sidecars that hold what
// their pods use.
const FetchVariable = "SALLYPORT_E2E_FETCH"

// Controller is `sallyport controller` on its host.
type Controller struct {
	scene    *Scene
	host     *world.Host
	dataDir  string
	meshFile string
	staging  string
	flags    []string       // beside those that it always has
	mode     string         // of the outbound traffic policy
	dns      string         // the mesh's sallyport.dns, as YAML
	fetch    string         // the mesh's sallyport.fetch
	trace    string         // the mesh's sallyport.traceProxies
	audit    string         // likewise its sallyport.audit
	tcpPorts string         // and its sallyport.tcpPorts
	detect   string         // its protocolDetectionTimeout
	nodes    string         // the mesh's sallyport.nodeAgents, as YAML
	process  *world.Process // nil when it does not run
}

// PID is that of its process, which runs.
func (c *Controller) PID() int { return c.process.PID() }

func newController(s *Scene, host *world.Host) (*Controller, error) {
	data, err := s.Run.MkdirOwned("data", world.ControlUID)
	if err != nil {
		return nil, err
	}
	settings := filepath.Join(s.Run.Dir, "settings") // like a mounted ConfigMap: a directory that may be read and watched
	if err := os.Mkdir(settings, 0o755); err != nil {
		return nil, err
	}
	c := &Controller{scene: s, host: host, dataDir: data, meshFile: filepath.Join(settings, "mesh.yaml"), staging: s.Config.staging, fetch: os.Getenv(FetchVariable)}
	return c, c.setPolicy("ALLOW_ANY")
}

// setPolicy writes what is to happen with hosts that nobody registered. The controller watches the file.
func (c *Controller) setPolicy(mode string) error {
	c.mode = mode
	return c.writeSettings()
}

// setDNS writes the mesh's settings for DNS, as YAML in one line; "" for none.
func (c *Controller) setDNS(dns string) error {
	c.dns = dns
	return c.writeSettings()
}

func (c *Controller) writeSettings() error {
	text := fmt.Sprintf("outboundTrafficPolicy:\n  mode: %s\n", c.mode)
	if c.detect != "" {
		text += "protocolDetectionTimeout: " + c.detect + "\n"
	}
	ours := map[string]string{"dns": c.dns, "fetch": c.fetch, "nodeAgents": c.nodes, "audit": c.audit, "tcpPorts": c.tcpPorts, "traceProxies": c.trace}
	text += "sallyport:\n"
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		if ours[key] != "" {
			text += fmt.Sprintf("  %s: %s\n", key, ours[key])
		}
	}
	return replaceFile(c.staging, c.meshFile, text)
}

// up starts the controller unless it runs, and waits until it is ready.
func (c *Controller) up(ctx context.Context) error {
	if c.process != nil {
		return nil
	}
	p, err := c.host.Start("controller", world.ControlUID, append([]string{
		c.scene.Programs.Sallyport, "controller",
		"--config-dir", c.scene.Config.Path, "--mesh-config", c.meshFile, "--data", c.dataDir, "--audit",
		"--secure-xds-addr", secureXDS.String(), "--host", world.ControlAddr.String(), "--admin-addr", admin,
	}, c.flags...)...)
	if err != nil {
		return err
	}
	c.process = p
	return ready(ctx, c.host, p, "http://"+admin+"/readyz")
}

// kill ends the controller, and the audit server that it started, as a crash does: kill -9.
func (c *Controller) kill(ctx context.Context) error {
	c.process = nil
	return c.host.KillUser(ctx, world.ControlUID)
}

// run calls the operator's program on the controller's host.
func (c *Controller) run(ctx context.Context, args ...string) ([]byte, error) {
	return c.host.Run(ctx, world.ControlUID, append([]string{c.scene.Programs.Sallyport}, args...)...)
}

// Address is where agents come to.
func (*Controller) Address() netip.AddrPort { return secureXDS }

// Token asks for a workload's token.
func (c *Controller) Token(ctx context.Context, ns, serviceAccount, _ string) (string, error) {
	out, err := c.run(ctx, "token", "--data", c.dataDir, ns+"/"+serviceAccount)
	return strings.TrimSpace(string(out)), err
}

// TrustBundle is the public root that agents verify the controller against.
func (c *Controller) TrustBundle(context.Context) ([]byte, error) {
	return os.ReadFile(filepath.Join(c.dataDir, "root-cert.pem"))
}

// ready waits until a program says so over HTTP, or has ended.
func ready(ctx context.Context, host *world.Host, p *world.Process, url string) error {
	client := host.HTTPClient()
	client.Timeout = 10 * time.Second // and then it is asked again
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.Done():
			cancel(p.Running())
		case <-ctx.Done():
		}
	}()
	err := world.Within(ctx, readyWithin, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s is not ready (log: %s): %w", p.Name, p.Log, err)
	}
	return nil
}
