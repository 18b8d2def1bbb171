package world

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func needNamespaces(t *testing.T) {
	t.Helper()
	if err := CanNamespace(); err != nil {
		t.Skip(err)
	}
}

func newWorld(t *testing.T) *World {
	t.Helper()
	needNamespaces(t)
	run, err := NewRun()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
		if left := leftBehind(run.Dir); left != "" {
			t.Errorf("left behind: %s", left)
		}
	})
	w, err := New(run)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// leftBehind lists what of the run with this directory is still on the machine.
func leftBehind(dir string) string {
	var left []string
	id := filepath.Base(dir)
	for _, pattern := range []string{
		filepath.Join(netnsDir, namespacePrefix(id)+"*"), filepath.Join(etcNetnsDir, namespacePrefix(id)+"*"), dir,
	} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	return strings.Join(left, " ")
}

func TestHostsReachEachOther(t *testing.T) {
	w := newWorld(t)
	l, err := w.Outside.Listen(NameServerAddr.String() + ":80")
	if err != nil {
		t.Fatal(err)
	}
	peers := make(chan string, 8)
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		peers <- r.RemoteAddr
		_, _ = io.WriteString(rw, "hello "+r.URL.Query().Get("q"))
	})}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	capture, err := w.App.Capture("eth0")
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.App.Run(ctx, AppUID, "curl", "-sS", "http://"+NameServerAddr.String()+"/?q=plainly-seen")
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != "hello plainly-seen" {
		t.Errorf("answer %q", out)
	}
	if peer := netip.MustParseAddrPort(<-peers); peer.Addr() != AppAddr {
		t.Errorf("the outside saw %s, want the pod's own address %s", peer, AppAddr)
	}
	wire, err := capture.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if !wire.Between(AppAddr, NameServerAddr).Contains("plainly-seen") {
		t.Errorf("the capture of %d bytes misses what crossed the wire", wire.Size())
	}

	// From our own process, through a socket inside.
	resp, err := w.Gateway.HTTPClient().Get("http://" + NameServerAddr.String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if peer := netip.MustParseAddrPort(<-peers); peer.Addr() != GatewayAddr {
		t.Errorf("the outside saw %s, want %s", peer, GatewayAddr)
	}
}

func TestProcessesRunUnderTheirUserWithTheirFiles(t *testing.T) {
	w := newWorld(t)
	out, err := w.App.Run(t.Context(), AppUID, "sh", "-c", "id -u; cat /etc/resolv.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(out), "1000\nnameserver 203.0.113.53\n") {
		t.Errorf("got %q", out)
	}
	p, err := w.App.Start("sleeper", ProxyUID, "sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Running(); err != nil {
		t.Fatal(err)
	}
	if err := Within(t.Context(), time.Minute, func() error {
		if got := owner(p.PID()); got != ProxyUID {
			return fmt.Errorf("the process runs as user %d", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.App.KillUser(t.Context(), ProxyUID); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if p.Running() == nil {
		t.Error("still said to run")
	}
}

// childMain builds a world with a process in it, says so, and waits for its end.
func childMain() {
	run, err := NewRun()
	if err != nil {
		panic(err)
	}
	w, err := New(run)
	if err != nil {
		panic(err)
	}
	p, err := w.App.Start("sleeper", ProxyUID, "sleep", "1000")
	if err != nil {
		panic(err)
	}
	fmt.Println(p.PID())
	select {}
}

func TestKilledRunIsReclaimed(t *testing.T) {
	needNamespaces(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=1")
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var sleeper int
	if _, err := fmt.Fscan(bufio.NewReader(stdout), &sleeper); err != nil {
		t.Fatal(err)
	}

	childDir := filepath.Join(os.TempDir(), fmt.Sprintf("sallyport-e2e-%d/%d", os.Geteuid(), child.Process.Pid))
	living, err := NewRun()
	if err != nil {
		t.Fatal(err)
	}
	if leftBehind(childDir) == "" {
		t.Error("a new run took a living one's namespaces away")
	}
	if err := living.Close(); err != nil {
		t.Error(err)
	}

	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if err := Within(t.Context(), time.Minute, func() error {
		if isZombie(sleeper) || errors.Is(syscall.Kill(sleeper, 0), syscall.ESRCH) {
			return nil
		}
		return fmt.Errorf("process %d survived the run that started it", sleeper)
	}); err != nil {
		t.Error(err)
	}
	next, err := NewRun()
	if err != nil {
		t.Fatal(err)
	}
	if err := Within(t.Context(), time.Minute, func() error { // another process's run may be at it
		if left := leftBehind(childDir); left != "" {
			return fmt.Errorf("not reclaimed: %s", left)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

func TestOneProcessHoldsSeveralRuns(t *testing.T) {
	first, second := newWorld(t), newWorld(t)
	for _, w := range []*World{first, second} {
		l, err := w.Outside.Listen(OutsideAddrs[0].String() + ":80") // the same address in both
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if left := leftBehind(second.Dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if _, err := first.App.Run(t.Context(), AppUID, "true"); err != nil {
		t.Errorf("the end of one run took from another: %v", err)
	}
}

// TestRunsEndBesideOthersThatBegin: a run that ends takes nothing of one that begins, though that may have its name.
func TestRunsEndBesideOthersThatBegin(t *testing.T) {
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			for range 25 {
				run, err := NewRun()
				if err != nil {
					t.Error(err)
					return
				}
				for n := range 100 {
					if err := os.WriteFile(filepath.Join(run.Dir, fmt.Sprint(n)), nil, 0o600); err != nil {
						t.Error(err)
					}
				}
				if files, err := os.ReadDir(run.Dir); err != nil || len(files) != 101 { // with the lock
					t.Errorf("%d files of 101: %v", len(files), err)
				}
				if err := run.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	runs.Wait()
}

func TestDescendants(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo started; wait")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(stdout, new(string)); err != nil {
		t.Fatal(err)
	}
	below, err := Descendants(cmd.Process.Pid)
	if err != nil || len(below) != 1 || !below[0].Exists() {
		t.Fatalf("got %v, %v", below, err)
	}
	if err := errors.Join(syscall.Kill(below[0].PID, syscall.SIGKILL), cmd.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := Within(t.Context(), time.Minute, func() error {
		if below[0].Exists() {
			return fmt.Errorf("%s still exists", below[0])
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
