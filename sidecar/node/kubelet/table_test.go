package kubelet

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/node/cni"
	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/sidecar/redirect/kernel"
)

// A pod behind its node, which hands on what comes from elsewhere with its own address. The addresses are of the pod, the node towards it, and the node and somebody elsewhere.
const (
	podV4, nodeV4, outerV4, elsewhereV4 = "10.88.0.2", "10.88.0.1", "10.89.0.1", "10.89.0.2"
	podV6, nodeV6, outerV6, elsewhereV6 = "fd88::2", "fd88::1", "fd89::1", "fd89::2"

	probed, other = 8080, 9090
	within        = 30 * time.Second
)

// TestKubelet: what the kubelet connects to of a pod goes to the app; what others send goes to the proxy, whatever they say, and so does what the kubelet sends elsewhere.
func TestKubelet(t *testing.T) {
	l := newLab(t)
	table, err := Open(l.path("node"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = table.Close() }()
	ports := []netip.AddrPort{l.at(podV4, probed), l.at(podV6, probed)}
	for range 2 { // it may be repeated
		if err := table.Add(ports); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(l.path("node"), true) // the next agent
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	for _, f := range []struct{ pod, elsewhere, kubelet string }{
		{podV4, elsewhereV4, redirect.KubeletAddresses[redirect.IPv4].String()}, {podV6, elsewhereV6, redirect.KubeletAddresses[redirect.IPv6].String()},
	} {
		l.want("the kubelet", "node", 0, f.pod, probed, "app "+f.kubelet)
		l.want("the kubelet, at another port", "node", 0, f.pod, other, "proxy")
		l.want("another user of the node", "node", 2000, f.pod, probed, "proxy")
		l.want("somebody elsewhere, handed on", "elsewhere", 0, f.pod, probed, "proxy")
		l.ip("-n", l.names["elsewhere"], "addr", "add", f.kubelet, "dev", "lo")
		if said, err := l.dial("elsewhere", 0, f.kubelet, f.pod, probed, time.Second); err == nil {
			t.Errorf("who says that it is the kubelet, %s, has the answer %q", f.kubelet, said)
		}
	}
	if err := again.Set(nil); err != nil {
		t.Fatal(err)
	}
	l.want("the kubelet, of a pod that is gone", "node", 0, podV4, probed, "proxy")
	for range 2 {
		if err := again.Remove(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoNetwork: a file that is no network namespace is none.
func TestNoNetwork(t *testing.T) {
	file := filepath.Join(t.TempDir(), cni.NetworkName)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, false); !errors.Is(err, cni.ErrNoNetwork) {
		t.Error(err)
	}
	if _, err := Open(file+"-not", false); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// lab is that world.
type lab struct {
	t     *testing.T
	names map[string]string // of network namespaces
}

func (l *lab) path(who string) string { return "/run/netns/" + l.names[who] }

func (l *lab) at(addr string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), port)
}

func (l *lab) run(program string, args ...string) {
	l.t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		l.t.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
}

func (l *lab) ip(args ...string) { l.t.Helper(); l.run("ip", args...) }

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	l := &lab{t: t, names: map[string]string{}}
	for _, who := range []string{"pod", "node", "elsewhere"} {
		name := fmt.Sprintf("spkb%d%s", os.Getpid(), who)
		l.names[who] = name
		l.ip("netns", "add", name)
		t.Cleanup(func() { l.ip("netns", "del", name) })
		l.ip("-n", name, "link", "set", "lo", "up")
	}
	l.wire("pod", "eth0", podV4, podV6, "node", "pod0", nodeV4, nodeV6)
	l.wire("elsewhere", "eth0", elsewhereV4, elsewhereV6, "node", "eth0", outerV4, outerV6)
	for _, who := range []string{"pod", "elsewhere"} {
		for family, via := range map[string][2]string{"-4": {nodeV4, outerV4}, "-6": {nodeV6, outerV6}} {
			l.ip(family, "-n", l.names[who], "route", "add", "default", "via", map[string]string{"pod": via[0], "elsewhere": via[1]}[who])
		}
	}
	for _, setting := range []string{"net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"} {
		l.run("ip", "netns", "exec", l.names["node"], "sysctl", "-qw", setting)
	}
	for _, program := range []string{"iptables", "ip6tables"} {
		l.run("ip", "netns", "exec", l.names["node"], program, "-t", "nat", "-A", "POSTROUTING", "-o", "pod0", "-j", "MASQUERADE")
	}
	l.inside("pod", func() error {
		return kernel.Apply(t.Context(), redirect.BuildAmbient(redirect.AmbientRules{IPv6: true, Kubelet: true}), redirect.AmbientDivert, kernel.Run{Wait: within, Log: slog.New(slog.DiscardHandler)})
	})
	l.serve("app", probed)
	l.serve("app", other)
	l.serve("proxy", redirect.AmbientInboundPort)
	return l
}

// wire lays a cable.
func (l *lab) wire(a, linkA, a4, a6, b, linkB, b4, b6 string) {
	l.t.Helper()
	l.ip("link", "add", linkA, "netns", l.names[a], "type", "veth", "peer", "name", linkB, "netns", l.names[b])
	for who, end := range map[string][3]string{a: {linkA, a4, a6}, b: {linkB, b4, b6}} {
		l.ip("-n", l.names[who], "link", "set", end[0], "up")
		l.ip("-n", l.names[who], "addr", "add", end[1]+"/24", "dev", end[0])
		l.ip("-n", l.names[who], "addr", "add", end[2]+"/64", "dev", end[0], "nodad")
	}
}

func (l *lab) inside(who string, do func() error) {
	l.t.Helper()
	if err := ns.WithNetNSPath(l.path(who), func(ns.NetNS) error { return do() }); err != nil {
		l.t.Fatalf("in %s: %v", who, err)
	}
}

// serve has somebody in the pod answer each connection with a name, and whom it takes the client for.
func (l *lab) serve(name string, port uint16) {
	l.t.Helper()
	l.inside("pod", func() error {
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		l.t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				from, _ := netip.ParseAddrPort(c.RemoteAddr().String())
				_, _ = fmt.Fprintf(c, "%s %s\n", name, from.Addr().Unmap())
				_ = c.Close()
			}
		}()
		return nil
	})
}

// dial has a user connect, and gives what is answered.
func (l *lab) dial(who string, user int, from, addr string, port uint16, patience time.Duration) (said string, err error) {
	l.t.Helper()
	l.inside(who, func() error {
		d := net.Dialer{Timeout: patience}
		if from != "" {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
		}
		runtime.LockOSThread()
		if user != 0 { // whose socket it is, is whoever opened its file
			if err := unix.Setfsuid(user); err != nil {
				return err
			}
			defer func() { _ = unix.Setfsuid(0) }()
		}
		var c net.Conn
		if c, err = d.Dial("tcp", l.at(addr, port).String()); err != nil {
			return nil
		}
		defer func() { _ = c.Close() }()
		_ = c.SetReadDeadline(time.Now().Add(within))
		said, err = bufio.NewReader(c).ReadString('\n')
		return nil
	})
	return strings.TrimSpace(said), err
}

func (l *lab) want(what, who string, user int, addr string, port uint16, begins string) {
	l.t.Helper()
	if said, err := l.dial(who, user, "", addr, port, within); err != nil || !strings.HasPrefix(said, begins) {
		l.t.Errorf("%s, to %s port %d: %q (%v), want %q", what, addr, port, said, err, begins)
	}
}
