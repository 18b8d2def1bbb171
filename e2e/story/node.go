package story

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/sallyport/sallyport/e2e/world"
)

// Node is a host whose agent serves pods without sidecars by one Envoy. The pods are hosts of their own.
type Node struct {
	Host    *world.Host
	name    string
	agent   string // its pod's name
	scene   *Scene
	dir     string
	ip      netip.Addr
	Process *world.Process // nil when it does not run
}

// nodeObjects is a node's agent as a cluster shows it.
const nodeObjects = `apiVersion: v1
kind: Pod
metadata: {name: %[3]s, namespace: istio-system}
spec: {serviceAccountName: %[1]s, nodeName: %[1]s, hostNetwork: true, containers: []}
status: {podIP: %[2]s, phase: Running}
`

// AddNode brings up a node with its agent. Its service account is called like itself.
func (s *Scene) AddNode(ctx context.Context, name string, ip netip.Addr, flags ...string) (*Node, error) {
	dir, err := s.Run.MkdirOwned(name, 0)
	if err != nil {
		return nil, err
	}
	s.Controller.nodes = fmt.Sprintf("[istio-system/%s]", name)
	if err := s.Controller.writeSettings(); err != nil {
		return nil, err
	}
	n, err := s.agentOf(ctx, &Node{name: name, agent: "agent-" + name, scene: s, dir: dir, ip: ip})
	if err != nil {
		return nil, err
	}
	return n, n.Up(ctx, flags...)
}

// Successor makes another agent of the node, which does not run yet. Like a new pod of a DaemonSet it has a network of its own, and the node's folders.
func (n *Node) Successor(ctx context.Context, name string, ip netip.Addr) (*Node, error) {
	return n.scene.agentOf(ctx, &Node{name: n.name, agent: name, scene: n.scene, dir: n.dir, ip: ip})
}

// agentOf makes what an agent needs.
func (s *Scene) agentOf(ctx context.Context, n *Node) (*Node, error) {
	host, err := s.World.AddPod(n.agent, n.ip)
	if err != nil {
		return nil, err
	}
	n.Host = host
	if err := s.Config.Write(n.agent+".yaml", fmt.Sprintf(nodeObjects, n.name, n.ip, n.agent)); err != nil {
		return nil, err
	}
	name := n.name
	tok, err := s.Controller.Token(ctx, "istio-system", name, name)
	if err != nil {
		return nil, err
	}
	root, err := s.Controller.TrustBundle(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(filepath.Join(n.dir, "token"), []byte(tok), 0o600), os.WriteFile(filepath.Join(n.dir, "root-cert.pem"), root, 0o600)); err != nil {
		return nil, err
	}
	// What leaves from here directly trusts the outside's CA, as real nodes trust the public ones.
	if err := host.Etc("ssl/certs/ca-certificates.crt", s.Outside.CA.PEM()); err != nil {
		return nil, err
	}
	return n, nil
}

// RunDir is that of all agents of the node.
func (n *Node) RunDir() string { return filepath.Join(n.dir, "run") }

// OwnDir is this agent's.
func (n *Node) OwnDir() string { return filepath.Join(n.RunDir(), "agents", n.agent) }

// Up starts the agent, and returns when it is ready.
func (n *Node) Up(ctx context.Context, flags ...string) error {
	if err := n.Begin(flags...); err != nil {
		return err
	}
	return n.Ready(ctx)
}

// Ready waits until the agent is.
func (n *Node) Ready(ctx context.Context) error { return ready(ctx, n.Host, n.Process, podReady) }

// Begin starts the agent.
func (n *Node) Begin(flags ...string) (err error) {
	n.Process, err = n.Host.Start(n.agent+"-agent", 0, append([]string{
		n.scene.Programs.Node, "agent", "--discovery-addr", secureXDS.String(),
		"--ca-root", filepath.Join(n.dir, "root-cert.pem"), "--token", filepath.Join(n.dir, "token"),
		"--name", n.agent, "--namespace", "istio-system", "--service-account", n.name, "--ip", n.ip.String(),
		"--envoy", n.scene.Programs.Envoy, "--run-dir", n.RunDir(), "--concurrency", "2",
		"--dns-upstream", netip.AddrPortFrom(world.NameServerAddr, 53).String(),
	}, flags...)...)
	return err
}

// Tell asks the agent about a pod, whose network is the host's: "add", "remove" or "check".
func (n *Node) Tell(ctx context.Context, what, pod string, h *world.Host) error {
	_, err := n.Host.Run(ctx, 0, n.scene.Programs.Node, "pod", what, pod, "--netns", "/run/netns/"+h.Namespace(), "--run-dir", n.RunDir())
	return err
}

// KillController ends the controller as a crash does; StartController starts it again.
func (s *Scene) KillController(ctx context.Context) error { return s.Controller.kill(ctx) }

// StartController starts the controller unless it runs.
func (s *Scene) StartController(ctx context.Context) error { return s.Controller.up(ctx) }
