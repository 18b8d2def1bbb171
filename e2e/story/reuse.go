package story

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// What tests beside the story do with a scene.

// Call runs the operator's program where the control plane is, and gives its output, also that of a call whose answer
// is no.
func (s *Scene) Call(ctx context.Context, args ...string) ([]byte, error) {
	return s.sallyport(ctx, args...)
}

// MeshConfig is the file with the mesh's settings.
func (s *Scene) MeshConfig() string { return s.Controller.meshFile }

// WriteMeshConfig writes it anew. Who watches it sees the old text or the new one, and never a part of one.
func (s *Scene) WriteMeshConfig(text string) error {
	return replaceFile(s.Controller.staging, s.Controller.meshFile, text)
}

// DataDir is the controller's folder of data, with the log.
func (s *Scene) DataDir() string { return s.dataDir() }

// SetFetch writes which hosts sidecars hold: all, or onUse.
func (s *Scene) SetFetch(fetch string) error {
	s.Controller.fetch = fetch
	return s.Controller.writeSettings()
}

// SetTracing writes whether agents may trace their Envoys.
func (s *Scene) SetTracing(may bool) error {
	s.Controller.trace = strconv.FormatBool(may)
	return s.Controller.writeSettings()
}

// SetTCPPorts writes at which ports nothing is read, and how long first bytes are waited for at others ("" for the default).
func (s *Scene) SetTCPPorts(ports, detect string) error {
	s.Controller.tcpPorts, s.Controller.detect = ports, detect
	return s.Controller.writeSettings()
}

// RecordMesh has what pods ask of the mesh's own Services recorded, too.
func (s *Scene) RecordMesh() error {
	s.Controller.audit = "{mesh: all}"
	return s.Controller.writeSettings()
}

// SetPolicy writes what is to happen with hosts that nobody registered, ALLOW_ANY or REGISTRY_ONLY, and waits until
// requests show it.
func (s *Scene) SetPolicy(ctx context.Context, mode string) error {
	_, err := s.policy(ctx, mode)
	return err
}

// WriteMode writes it, whatever the mode, and waits for nothing.
func (s *Scene) WriteMode(mode string) error { return s.Controller.setPolicy(mode) }

// AuditRecords asks the log for what happened since the scene was set.
func (s *Scene) AuditRecords(ctx context.Context, flags ...string) ([]record.Record, error) {
	return s.auditRecords(ctx, flags...)
}

// AddSidecar puts one more pod into the scene, whose proxy is a sidecar. The objects that show it to the control plane are
// the caller's to write.
func (s *Scene) AddSidecar(ctx context.Context, name, ns, serviceAccount string, addr netip.Addr, labels ...string) (*Pod, error) {
	return s.addPod(ctx, "sidecar", name, ns, serviceAccount, addr, labels)
}

// AddRouter is AddSidecar for a gateway.
func (s *Scene) AddRouter(ctx context.Context, name, ns, serviceAccount string, addr netip.Addr, labels ...string) (*Pod, error) {
	return s.addPod(ctx, "router", name, ns, serviceAccount, addr, labels)
}

// AddDualRouter is AddRouter for one that has an IPv6 address, too.
func (s *Scene) AddDualRouter(ctx context.Context, name, ns, serviceAccount string, addr, more netip.Addr, labels ...string) (*Pod, error) {
	return s.addPod(ctx, "router", name, ns, serviceAccount, addr, labels, "--ip", more.String())
}

// AddWaypoint is AddSidecar for a waypoint, which needs its Gateway's name among the labels.
func (s *Scene) AddWaypoint(ctx context.Context, name, ns, serviceAccount string, addr netip.Addr, labels ...string) (*Pod, error) {
	return s.addPod(ctx, "waypoint", name, ns, serviceAccount, addr, labels)
}

// AddMachine is AddSidecar for a machine that joins by a WorkloadGroup.
func (s *Scene) AddMachine(ctx context.Context, name, ns, serviceAccount, group string, addr netip.Addr) (*Pod, error) {
	return s.addPod(ctx, "sidecar", name, ns, serviceAccount, addr, nil, "--metadata", "AUTO_REGISTER_GROUP="+group)
}

// Kill ends the pod's agent and Envoy at once.
func (p *Pod) Kill(ctx context.Context) error { return p.kill(ctx) }

func (s *Scene) addPod(ctx context.Context, role, name, ns, serviceAccount string, addr netip.Addr, labels []string, flags ...string) (*Pod, error) {
	host, err := s.World.AddPod(name, addr)
	if err != nil {
		return nil, err
	}
	return s.start(ctx, &Pod{scene: s, host: host, role: role, name: name, ns: ns, sa: serviceAccount, ip: addr, labels: labels, flags: flags})
}

// Placed is a pod that has its place in the network already, and whose control plane is some other than the scene's.
type Placed struct {
	Plane                    Plane
	Host                     *world.Host
	Address                  netip.Addr
	Role                     string // "sidecar", "router" or "waypoint"
	Name, Namespace, Account string
	Labels, Flags            []string
}

// AddPlaced starts the pod's proxy.
func (s *Scene) AddPlaced(ctx context.Context, p Placed) (*Pod, error) {
	return s.start(ctx, &Pod{scene: s, plane: p.Plane, host: p.Host, role: p.Role, name: p.Name, ns: p.Namespace, sa: p.Account, ip: p.Address, labels: p.Labels, flags: p.Flags})
}

func (s *Scene) start(ctx context.Context, p *Pod) (*Pod, error) {
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	return p, p.up(ctx)
}

// RunDir is where the pod's agent keeps its files.
func (p *Pod) RunDir() string { return filepath.Join(p.dir, "run") }

// Restart ends the pod's agent and Envoy at once, and starts them again: with what they had on disk, or without.
func (p *Pod) Restart(ctx context.Context, forget bool) error {
	if err := p.kill(ctx); err != nil {
		return err
	}
	if forget {
		if err := os.RemoveAll(filepath.Join(p.RunDir(), "state", "xds")); err != nil {
			return err
		}
	}
	return p.up(ctx)
}

// StartBy has the agent started by another command from now on, which is given the agent's.
func (p *Pod) StartBy(argv ...string) { p.by = argv }

// Signal sends the pod's agent a signal.
func (p *Pod) Signal(s syscall.Signal) error { return syscall.Kill(p.agent.PID(), s) }

// Ended says whether the pod's agent has ended.
func (p *Pod) Ended() bool { return p.agent.Running() != nil }

// Host is where the pod runs.
func (p *Pod) Host() *world.Host { return p.host }

// Admin asks the pod's Envoy at its administration port.
func (p *Pod) Admin(ctx context.Context, path string) ([]byte, error) {
	text, err := get(ctx, p.host, "http://"+envoyAdmin+path)
	if err != nil {
		return nil, fmt.Errorf("the Envoy of %s: %w", p.name, err)
	}
	return text, nil
}

// Admin asks the controller at its administration port.
func (c *Controller) Admin(ctx context.Context, path string) ([]byte, error) {
	text, err := get(ctx, c.host, "http://"+admin+path)
	if err != nil {
		return nil, fmt.Errorf("the controller: %w", err)
	}
	return text, nil
}

// get asks from a host.
func get(ctx context.Context, from *world.Host, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := from.HTTPClient().Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return io.ReadAll(resp.Body)
}

// AloneFromDisk ends the controller, and starts the gateway again without it.
func (s *Scene) AloneFromDisk(ctx context.Context) error {
	if err := s.Controller.kill(ctx); err != nil {
		return err
	}
	if err := s.Gateway.kill(ctx); err != nil {
		return err
	}
	return s.Gateway.up(ctx)
}

// ProxyAddr is where `sallyport up` takes requests, in a scene on loopback.
func (s *Scene) ProxyAddr() string { return s.Up.proxyAddr }

// EnvoyMemory is the resident memory of the pod's Envoy, in bytes.
func (p *Pod) EnvoyMemory() (int64, error) {
	if p.agent == nil {
		return 0, fmt.Errorf("%s does not run", p.name)
	}
	below, err := world.Descendants(p.agent.PID())
	if err != nil {
		return 0, err
	}
	for _, d := range below {
		if d.Program == "envoy" {
			return d.Resident()
		}
	}
	return 0, fmt.Errorf("%s has no Envoy", p.name)
}

// AgentMemory is the resident memory of the pod's agent, in bytes.
func (p *Pod) AgentMemory() (int64, error) { return p.agent.Resident() }

// Kill ends the controller as a crash does.
func (c *Controller) Kill(ctx context.Context) error { return c.kill(ctx) }

// Start starts the controller unless it runs, and waits until it is ready.
func (c *Controller) Start(ctx context.Context) error { return c.up(ctx) }
