package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sallyport/sallyport/e2e/cluster/node"
)

// ErrDown is in Open's error when no cluster is running.
var ErrDown = errors.New("there is no test cluster: run `make cluster` as root")

// Cluster is the running cluster.
type Cluster struct {
	Config     *rest.Config // with all rights, without a client-side rate limit
	Kubeconfig string       // a file with the same access

	// Programs on the host.
	Kubectl, Helm string

	pid      int // of the node's first process
	programs programs
}

// Open finds the cluster that somebody brought up.
func Open() (*Cluster, error) {
	pid, running, err := node.Running(Dir)
	if err != nil {
		return nil, fmt.Errorf("test cluster: %w", err)
	}
	if !running {
		return nil, ErrDown
	}
	p, err := findPrograms()
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", adminKubeconfig())
	if err != nil {
		return nil, fmt.Errorf("test cluster: %w", err)
	}
	config.QPS = -1
	return &Cluster{Config: config, Kubeconfig: adminKubeconfig(), Kubectl: p["kubectl"], Helm: p["helm"], pid: pid, programs: p}, nil
}

// NodeCommand is a command that runs inside the node: as root, as one of its processes, on its network.
func (c *Cluster) NodeCommand(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := node.Command(ctx, c.pid, argv...)
	cmd.Env = append(os.Environ(), path)
	return cmd
}

// NodeNetNS is the file of the node's network namespace.
func (c *Cluster) NodeNetNS() string { return node.NetNS(c.pid) }

// Apply applies a manifest (YAML), as `kubectl apply --server-side` does.
func (c *Cluster) Apply(ctx context.Context, manifest []byte) error {
	_, err := c.kubectl(ctx, manifest, "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}

// kubectl runs kubectl and gives what it wrote to standard output.
func (c *Cluster) kubectl(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.Kubectl, append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	return output(cmd)
}

// output runs the command; the error holds what it wrote to standard error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
