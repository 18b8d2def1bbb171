package world

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Host is one network namespace with one interface, eth0 (the router has one for each network).
type Host struct {
	Name string // as the story calls it: "app"

	run       *Run
	namespace string
}

// Namespace is the name that `ip netns` knows.
func (h *Host) Namespace() string { return h.namespace }

// Do calls f on a thread inside the host's namespace: sockets opened there stay there.
func (h *Host) Do(f func() error) error { return inNamespace(h.namespace, f) }

// Listen opens a TCP listener inside the host.
func (h *Host) Listen(addr string) (l net.Listener, err error) {
	err = h.Do(func() error { l, err = net.Listen("tcp", addr); return err })
	return l, err
}

// ListenPacket opens a UDP socket inside the host.
func (h *Host) ListenPacket(addr string) (c net.PacketConn, err error) {
	err = h.Do(func() error { c, err = net.ListenPacket("udp", addr); return err })
	return c, err
}

// DialContext connects from inside the host, as root: the pods' redirect rules apply to it. The address must be an
// IP address, for names are resolved outside.
func (h *Host) DialContext(ctx context.Context, network, addr string) (c net.Conn, err error) {
	err = h.Do(func() error {
		c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
		return err
	})
	return c, err
}

// HTTPClient makes requests from inside the host.
func (h *Host) HTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: h.DialContext, DisableKeepAlives: true}}
}

// Command is a command inside the host under the given user id, with the host's files over /etc. It ends with its
// context, and with us.
func (h *Host) Command(ctx context.Context, uid int, argv ...string) *exec.Cmd {
	args := []string{"netns", "exec", h.namespace}
	if uid != 0 {
		id := strconv.Itoa(uid)
		// A change of user clears the signal at the parent's death, so setpriv asks for it again.
		args = append(args, "setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--pdeathsig", "KILL", "--")
	}
	cmd := exec.CommandContext(ctx, "ip", append(args, argv...)...)
	cmd.SysProcAttr = ownSession()
	cmd.Dir = h.run.Dir
	return cmd
}

// Run runs a command to its end and gives its standard output; the error holds what it wrote to standard error.
func (h *Host) Run(ctx context.Context, uid int, argv ...string) ([]byte, error) {
	cmd := h.Command(ctx, uid, argv...)
	out, err := Output(cmd)
	if err != nil {
		return out, fmt.Errorf("on %s: %w", h.Name, err)
	}
	return out, nil
}

// Start starts a long-lived program; its output goes to logs/NAME.log of the run.
func (h *Host) Start(name string, uid int, argv ...string) (*Process, error) {
	p, err := startLogged(name, h.run.LogFile(name), h.Command(context.Background(), uid, argv...))
	if err != nil {
		return nil, err
	}
	h.run.OnClose(func() error { return h.KillAll() })
	return p, nil
}

// KillAll kills every process inside the host with SIGKILL.
func (h *Host) KillAll() error {
	if _, err := os.Stat(filepath.Join(netnsDir, h.namespace)); err != nil {
		return nil
	}
	return killAll(h.namespace)
}

// KillUser kills the processes of one user inside the host with SIGKILL and waits until they are gone.
func (h *Host) KillUser(ctx context.Context, uid int) error {
	if err := killIn(ctx, h.namespace, func(pid int) bool { return owner(pid) == uid }); err != nil {
		return fmt.Errorf("user %d on %s: %w", uid, h.Name, err)
	}
	return nil
}
