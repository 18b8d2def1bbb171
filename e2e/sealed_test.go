package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/e2e/world"
)

// sealed as the first argument makes the test binary start the others as a program that may call the kernel as a container may: without a right, and by the profile that
// containerd gives (RuntimeDefault).
const sealed = "sealed"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == sealed {
		fmt.Fprintln(os.Stderr, seal(os.Args[2:]))
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// closedCalls are those of that profile's closed ones by which a process could reach into others, or into the network.
var closedCalls = []uint32{
	unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_BPF, unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
}

// seal becomes another program.
func seal(argv []string) error {
	runtime.LockOSThread()
	const number, refuse = 0, unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number}}
	for _, call := range closedCalls {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1}, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: refuse})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return syscall.Exec(argv[0], argv, os.Environ())
}

// TestStraightConnectionsEndInContainers holds what TestStraightConnectionsEnd does where the sidecar may do what a container in a cluster may.
func TestStraightConnectionsEndInContainers(t *testing.T) {
	needRoot(t)
	t.Parallel()
	straightConnectionsEnd(t, func(t *testing.T, o *openBytes) {
		self := filepath.Join(o.scene.Run.Dir, "container") // where the proxy's user may read it
		own, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := world.Output(exec.Command("cp", own, self)); err != nil {
			t.Fatal(err)
		}
		o.scene.App.StartBy(self, sealed)
		if err := o.scene.App.Restart(o.ctx, false); err != nil {
			t.Fatal(err)
		}
	}, func(o *openBytes) part { return part{"the mesh lets no agent trace", o.untraced} })
}

// untraced: while the mesh's settings let no agent trace its Envoy, what is denied and open goes on, which is said; and ends when they do again.
func (o *openBytes) untraced(t *testing.T) {
	o.mayTrace(t, false)
	o.allowing(t, "'*.open.test'")
	denied := []*talk{o.open(t, "app", "tls", "one.open.test")}
	o.allowing(t, "two.open.test")
	if err := world.Within(o.ctx, time.Minute, func() error {
		if n := metricAt(o.ctx, t, o.host, "sallyport_agent_tunnels_denied"); n != 1 {
			return fmt.Errorf("%v connections are said to be denied and open", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	o.goOn(t, denied)
	since := time.Now()
	o.mayTrace(t, true)
	o.end(t, since, denied, nil)
}

// mayTrace writes it, and waits until the pod's agent says what follows, and the controller.
func (o *openBytes) mayTrace(t *testing.T, may bool) {
	t.Helper()
	if err := o.scene.SetTracing(may); err != nil {
		t.Fatal(err)
	}
	ends, said := 0.0, `"endsConnections": "false"`
	if may {
		ends, said = 1, `"endsConnections": "true"`
	}
	if err := world.Within(o.ctx, time.Minute, func() error {
		if got := metricAt(o.ctx, t, o.host, "sallyport_agent_tunnels_can_end"); got != ends {
			return fmt.Errorf("the agent says that it can end connections: %v", got)
		}
		out, err := o.scene.Call(o.ctx, "proxies", "-o", "json")
		if err == nil && !strings.Contains(string(out), said) {
			err = fmt.Errorf("no proxy says %s: %s", said, out)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
