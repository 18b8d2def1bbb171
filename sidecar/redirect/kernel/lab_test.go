package kernel

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Addresses of the lab: a pod and a host outside it, on one wire.
const (
	podV4, outsideV4 = "10.77.0.2", "10.77.0.1"
	podV6, outsideV6 = "fd77::2", "fd77::1"
)

const (
	appID   = 2000
	proxyID = 1337
)

// lab is a pod's network namespace and the world outside, for one kind of iptables.
type lab struct {
	t            *testing.T
	pod, outside string // network namespaces
	path         string // PATH for the pod's processes
}

// kinds are the two implementations of iptables.
var kinds = []string{"nft", "legacy"}

// labs numbers the labs of this process.
var labs atomic.Int32

// newLab makes the namespaces; labs may run side by side. The pod's PATH holds one kind of iptables only.
func newLab(t *testing.T, kind string) *lab {
	t.Helper()
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	for _, program := range []string{"ip", "iptables-" + kind} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
	reclaim()
	prefix := fmt.Sprintf("sprd%d-%d", os.Getpid(), labs.Add(1))
	l := &lab{t: t, pod: prefix + "pod", outside: prefix + "out", path: t.TempDir()}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, action := range []string{"", "-save", "-restore"} {
			program, err := exec.LookPath(family + "-" + kind + action)
			if err != nil {
				t.Skip(err)
			}
			if program, err = filepath.EvalSymlinks(program); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(program, filepath.Join(l.path, family+action)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, ns := range []string{l.pod, l.outside} {
		sh(t, "ip netns add "+ns)
		t.Cleanup(func() { sh(t, "ip netns del "+ns) })
		sh(t, "ip -n "+ns+" link set lo up")
	}
	sh(t, fmt.Sprintf("ip link add eth0 netns %s type veth peer name eth0 netns %s", l.pod, l.outside))
	for ns, addresses := range map[string][]string{l.pod: {podV4 + "/24", podV6 + "/64"}, l.outside: {outsideV4 + "/24", outsideV6 + "/64"}} {
		sh(t, "ip -n "+ns+" link set eth0 addrgenmode none up")
		sh(t, "ip -n "+ns+" addr add "+addresses[0]+" dev eth0")
		sh(t, "ip -n "+ns+" addr add "+addresses[1]+" dev eth0 nodad")
	}
	return l
}

// reclaim removes namespaces of runs that died.
func reclaim() {
	entries, _ := filepath.Glob("/run/netns/sprd*-*")
	for _, entry := range entries {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(entry), "sprd%d-", &pid); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = exec.Command("ip", "netns", "del", filepath.Base(entry)).Run()
		}
	}
}

func sh(t *testing.T, line string) string {
	t.Helper()
	words := strings.Fields(line)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	return string(out)
}

// command is this binary in a role, inside a namespace, in a process group of its own.
func (l *lab) command(ctx context.Context, ns string, r role, env ...string) *exec.Cmd {
	text, err := json.Marshal(r)
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", ns, "/proc/self/fd/3")
	self, err := os.Open(os.Args[0])
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = self.Close() })
	cmd.ExtraFiles = []*os.File{self}
	// The race detector would wait a second at each exit.
	cmd.Env = append(append(os.Environ(), roleVariable+"="+string(text), "GORACE=atexit_sleep_ms=0"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// play runs a role to its end and returns what it printed.
func (l *lab) play(ns string, r role, env ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := l.command(ctx, ns, r, env...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// init runs init in the pod, with one kind of iptables, and returns its log.
func (l *lab) init(args ...string) (string, error) {
	return l.play(l.pod, role{Do: "init", Args: args}, "PATH="+l.path)
}

func (l *lab) mustInit(wantChange bool, args ...string) {
	l.t.Helper()
	log, err := l.init(args...)
	if err != nil {
		l.t.Fatalf("init %v: %v: %s", args, err, log)
	}
	if want := fmt.Sprintf("changed=%v", wantChange); !strings.Contains(log, want) {
		l.t.Errorf("init %v: want %s: %s", args, want, log)
	}
}

// start runs a role in the background, waits for its "ready", and returns a function that ends it and gives the rest of
// its output.
func (l *lab) start(ns string, r role) (end func() string) {
	l.t.Helper()
	cmd := l.command(context.Background(), ns, r)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || lines.Text() != "ready" {
		l.t.Fatalf("%s %v: %q", r.Do, r.Serve, lines.Text())
	}
	ended := false
	end = func() string {
		if ended {
			return ""
		}
		ended = true
		_ = stdin.Close()
		var rest []string
		for lines.Scan() {
			rest = append(rest, lines.Text())
		}
		_ = cmd.Wait()
		return strings.Join(rest, "\n")
	}
	l.t.Cleanup(func() { end() })
	return end
}

var counters = regexp.MustCompile(`\[\d+:\d+\]`)

// saved is iptables-save's output for both families without comments and counters.
func (l *lab) saved() string {
	l.t.Helper()
	var b strings.Builder
	for _, program := range []string{"iptables-save", "ip6tables-save"} {
		for line := range strings.Lines(sh(l.t, "ip netns exec "+l.pod+" "+filepath.Join(l.path, program))) {
			if !strings.HasPrefix(line, "#") {
				b.WriteString(counters.ReplaceAllString(line, "[]"))
			}
		}
	}
	return b.String()
}

// restore gives text to both families' iptables-restore.
func (l *lab) restore(text string) {
	l.t.Helper()
	for _, program := range []string{"iptables-restore", "ip6tables-restore"} {
		cmd := exec.Command("ip", "netns", "exec", l.pod, filepath.Join(l.path, program), "--noflush")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			l.t.Fatalf("%s: %v: %s", program, err, out)
		}
	}
}
