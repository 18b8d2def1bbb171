package incluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// networkOf is the inode of an ambient pod's network namespace, as the node's agent notes it.
func (s *stage) networkOf(runDir, ns, app string) uint64 {
	s.Helper()
	name := strings.TrimSpace(s.kubectl("get", "pods", "-n", ns, "-l", "app="+app, "-o", "jsonpath={.items[0].metadata.name}"))
	var found []string
	s.must(filepath.WalkDir(runDir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(filepath.Base(path), name+"."+ns+"-") {
			found = append(found, path)
		}
		return nil
	}))
	if len(found) != 1 {
		s.Fatalf("the agent's notes of the network of %s/%s: %q", ns, name, found)
	}
	inode, err := strconv.ParseUint(found[0][strings.LastIndexByte(found[0], '-')+1:], 10, 64)
	s.must(err)
	return inode
}

// heldIn is how many sockets the Envoys of the node's agents have in a network namespace: as long as there is one, the kernel keeps that.
func (s *stage) heldIn(network uint64) (sockets int, err error) {
	envoys, err := s.nodesEnvoys()
	for _, pid := range envoys {
		n, gone := socketsIn(pid, network)
		sockets, err = sockets+n, errors.Join(err, gone)
	}
	return sockets, err
}

// nodesEnvoys are the processes of the node's Envoys: children of its agents, below the node's first process.
func (s *stage) nodesEnvoys() (out []int, err error) {
	first := strings.Split(strings.TrimPrefix(s.NodeNetNS(), "/proc/"), "/")[0]
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		text, gone := os.ReadFile(name)
		if gone != nil || strings.TrimSpace(string(text)) != "envoy" {
			continue
		}
		pid := strings.Split(name, "/")[2]
		line, _ := os.ReadFile("/proc/" + parent(pid) + "/cmdline")
		below := parent(pid)
		for below != first && below != "0" && below != "" {
			below = parent(below)
		}
		if below == first && strings.Contains(string(line), "sallyport-node") {
			n, _ := strconv.Atoi(pid)
			out = append(out, n)
		}
	}
	if err == nil && len(out) == 0 {
		err = errors.New("no Envoy of the node's agent runs")
	}
	return out, err
}

func parent(pid string) string {
	text, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, "PPid:"); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// socketsIn counts a process's sockets in a network namespace (ioctl_ns(2): SIOCGSKNS).
func socketsIn(pid int, network uint64) (n int, err error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(process) }()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	for _, f := range files {
		to, gone := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, f.Name()))
		if gone != nil || !strings.HasPrefix(to, "socket:") {
			continue
		}
		number, _ := strconv.Atoi(f.Name())
		if in, err := networkOfSocket(process, number); err == nil && in == network { // else it is closed meanwhile, or of no network
			n++
		}
	}
	return n, err
}

func networkOfSocket(process, number int) (uint64, error) {
	socket, err := unix.PidfdGetfd(process, number, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(socket) }()
	ns, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), unix.SIOCGSKNS, 0)
	if errno != 0 {
		return 0, errno
	}
	defer func() { _ = unix.Close(int(ns)) }()
	var st unix.Stat_t
	err = unix.Fstat(int(ns), &st)
	return st.Ino, err
}
