package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// beSallyport makes the test binary the program.
const beSallyport = "SALLYPORT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(beSallyport) != "" {
		main()
		return
	}
	code := m.Run()
	removeBuilt()
	os.Exit(code)
}

// ordinary is the user that programs run as where the test is root.
const ordinary = 1000

// programs are the files that `sallyport up` runs, in a place that every user can reach.
type programs struct{ sallyport, agent, envoy string }

func upPrograms(t *testing.T) programs {
	t.Helper()
	if testing.Short() {
		t.Skip("starts the real programs: not with -short")
	}
	envoy := upEnvoy(t)
	dir := programs{}.dir(t)
	p := programs{filepath.Join(dir, "sallyport"), filepath.Join(dir, "sallyport-agent"), filepath.Join(dir, "envoy")}
	agent, err := builtAgent()
	if err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{p.sallyport: os.Args[0], p.agent: agent, p.envoy: envoy} {
		if err := copyFile(to, from); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// builtAgent builds the agent as the Makefile does, once for all tests: what was compiled for that one is in the cache.
var builtAgent = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		return "", err
	}
	removeBuilt = func() { _ = os.RemoveAll(dir) }
	path := filepath.Join(dir, "sallyport-agent")
	build := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", path, "../sallyport-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

var removeBuilt = func() {}

func upEnvoy(t *testing.T) string {
	cache, _ := os.UserCacheDir()
	for _, path := range []string{os.Getenv("ENVOY"), "../../bin/envoy", filepath.Join(cache, "sallyport/envoy-1.40.0/envoy")} {
		if _, err := os.Stat(path); path != "" && err == nil {
			return path
		}
	}
	t.Skip("no Envoy: run make envoy")
	return ""
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// dir makes a directory of the ordinary user's; its path is short, for sockets are in it.
func (programs) dir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "up") //nolint:usetesting // t.TempDir is closed to other users, and too long for sockets
	if err == nil && os.Geteuid() == 0 {
		err = os.Chown(dir, ordinary, ordinary)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// command is a call without a home, as an ordinary user.
func (p programs) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.sallyport, args...)
	cmd.Env = []string{beSallyport + "=1", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: ordinary, Gid: ordinary}
	}
	return cmd
}

// run calls to the end, two minutes at most, and gives both outputs.
func (p programs) run(t *testing.T, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := p.command(ctx, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// running is a program with its output.
type running struct {
	cmd  *exec.Cmd
	done chan error
	mu   sync.Mutex
	text bytes.Buffer
}

func (p programs) start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{cmd: p.command(context.Background(), args...), done: make(chan error, 1)}
	r.cmd.Stdout, r.cmd.Stderr = r, r
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.done <- r.cmd.Wait() }()
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.end(t, syscall.SIGTERM)
		}
		if t.Failed() {
			t.Log(r.output())
		}
	})
	return r
}

// Write collects output.
func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *running) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *running) says(t *testing.T, text string) {
	t.Helper()
	upEventually(t, "that it says "+text, func() error {
		if !strings.Contains(r.output(), text) {
			return errors.New("it does not")
		}
		return nil
	})
}

var proxyLine = regexp.MustCompile(`forward proxy +http://(\S+)`)

// proxy is where the proxy listens, once up has said it.
func (r *running) proxy(t *testing.T) (addr string) {
	t.Helper()
	upEventually(t, "that it says where the proxy is", func() error {
		found := proxyLine.FindStringSubmatch(r.output())
		if found == nil {
			return errors.New("it does not")
		}
		addr = found[1]
		return nil
	})
	return addr
}

// end asks it to end and waits.
func (r *running) end(t *testing.T, signal os.Signal) error {
	_ = r.cmd.Process.Signal(signal)
	select {
	case err := <-r.done:
		return err
	case <-time.After(2 * time.Minute):
		_ = r.cmd.Process.Kill()
		t.Error("it does not end")
		return <-r.done
	}
}

// below lists the processes under it by program.
func (r *running) below(t *testing.T) map[string][]int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("no /proc")
	}
	parent, name := map[int]int{}, map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		stat, readErr := os.ReadFile(filepath.Join("/proc", e.Name(), "stat")) // PID (NAME) STATE PARENT …
		if err != nil || readErr != nil {
			continue
		}
		at := bytes.LastIndexByte(stat, ')')
		if fields := strings.Fields(string(stat[at+1:])); fields[0] != "Z" {
			parent[pid], _ = strconv.Atoi(fields[1])
			target, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
			name[pid] = filepath.Base(target)
		}
	}
	found := map[string][]int{}
	for pid := range parent {
		for up := parent[pid]; up != 0; up = parent[up] {
			if up == r.cmd.Process.Pid {
				found[name[pid]] = append(found[name[pid]], pid)
				break
			}
		}
	}
	return found
}

func through(proxy string) func(*http.Request) (*url.URL, error) {
	return http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})
}

// upNameServer answers for the names with their addresses, and NXDOMAIN for all others.
func upNameServer(t *testing.T, names map[string]string) string {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		asked := q.Question[0]
		addr, known := names[strings.ToLower(asked.Name)] // askers mix the case, as proof against others
		switch {
		case !known:
			m.Rcode = dns.RcodeNameError
		case asked.Qtype == dns.TypeA:
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.ParseIP(addr)}}
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })
	return conn.LocalAddr().String()
}

// upEventually waits for other processes, two minutes at most.
func upEventually(t *testing.T, what string, check func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	over := time.After(2 * time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("waited for %s: %v", what, err)
		}
	}
}
