package node

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// inside calls f on a thread in a network namespace. Sockets that f opens, and processes that it starts, stay there.
func inside(path string, f func() error) error {
	n, err := ns.GetNS(path)
	if err != nil {
		return err
	}
	defer func() { _ = n.Close() }()
	return n.Do(func(ns.NetNS) error { return f() })
}

// inodeOf tells network namespaces apart: a path may come to mean another one.
func inodeOf(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("%s: no inode", path)
	}
	return st.Ino, nil
}

// link gives a network namespace a path that has never meant another one and never will: Envoy goes on using the namespace that it
// found by a path. It holds nothing: the namespace ends with its pod.
func link(folder string, l Local) (string, error) {
	inode, err := inodeOf(l.Network)
	if err != nil {
		return "", fmt.Errorf("network namespace of %s: %w", l.Key(), err)
	}
	path := linkOf(folder, l, inode)
	if to, err := os.Readlink(path); err == nil && to == l.Network { // another agent's Envoy may be about to use it
		return path, nil
	}
	next := fmt.Sprintf("%s.%d", path, rand.Uint64())
	if err := os.Symlink(l.Network, next); err != nil {
		return "", err
	}
	return path, os.Rename(next, path)
}

func linkOf(folder string, l Local, inode uint64) string {
	return filepath.Join(folder, fmt.Sprintf("%s.%s-%d", l.Name, l.Namespace, inode))
}

// linked is the path that a pod's network was given, by this agent or an earlier one. As long as there is one, the rules may be there.
func (p *Pods) linked(l Local) (string, bool) {
	inode, err := inodeOf(l.Network)
	if err != nil {
		return "", false
	}
	path := linkOf(p.path("networks"), l, inode)
	_, err = os.Lstat(path)
	return path, err == nil
}

// unlink removes all paths of a pod that has ended.
func (p *Pods) unlink(l Local) {
	prefix := p.path("networks", fmt.Sprintf("%s.%s-", l.Name, l.Namespace))
	paths, _ := filepath.Glob(prefix + "*")
	for _, path := range paths {
		if _, err := strconv.ParseUint(strings.TrimPrefix(path, prefix), 10, 64); err == nil { // else it is of a longer namespace
			_ = os.Remove(path)
		}
	}
}

// ownAddresses are those of the namespace of the calling thread by which others may reach it.
func ownAddresses() (out []netip.Addr, err error) {
	list, err := net.InterfaceAddrs()
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			out = append(out, p.Addr().Unmap())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out, err
}

// HasIPv6 says whether the kernel has IPv6 at all. A pod may be without it all the same.
func HasIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// listening says whether ports are open for TCP in the namespace of the calling thread.
func listening(ports ...uint16) (bool, error) {
	open, err := listeningPorts()
	return err == nil && !slices.ContainsFunc(ports, func(p uint16) bool { return !open[p] }), err
}

// listensAt says whether any of them is.
func listensAt(ports ...uint16) (bool, error) {
	open, err := listeningPorts()
	return err == nil && slices.ContainsFunc(ports, func(p uint16) bool { return open[p] }), err
}

func listeningPorts() (open map[uint16]bool, err error) {
	open = map[uint16]bool{}
	note := func(port uint16) { open[port] = true }
	if sockdiag.Listening(note) != nil { // a kernel without it (CONFIG_INET_DIAG), or a sandbox
		err = listeningInProc(note)
	}
	return open, err
}

// listeningInProc gives each port that is listened to, as /proc has it: everywhere, and dear (sockdiag.Listening).
func listeningInProc(each func(port uint16)) error {
	for _, file := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 4 || f[3] != tcpListen {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
				each(uint16(port))
			}
		}
	}
	return nil
}

// tcpListen is TCP_LISTEN of net/tcp_states.h, as /proc writes it.
const tcpListen = "0A"
