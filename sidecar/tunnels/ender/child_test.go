package ender

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// beChild makes the test binary a process that says again what it is told.
const beChild = "SALLYPORT_TEST_CHILD"

func TestMain(m *testing.M) {
	if stage := os.Getenv(beTracer); stage != "" {
		traceAndStay(stage)
	}
	if os.Getenv(beChild) == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() { _, _ = io.Copy(c, c) }()
	}
}

// TestChild: one connection of a child's is reset, without any right to it, and no other one is.
func TestChild(t *testing.T) {
	if err := mayCopy(); err != nil {
		t.Skip(err)
	}
	c := startEchoes(t)
	e := &Child{PID: func() int { return c.process.Process.Pid }}
	if err := e.Can(t.Context()); err != nil {
		t.Errorf("of a process that may: %v", err)
	}
	c.endsOne(t, e.End)
	found := c.find(t, c.talk(t))
	none := &Child{PID: func() int { return 0 }}
	if none.Can(t.Context()) == nil || errors.Is(none.End(t.Context(), found), nil) {
		t.Error("of a process that does not run something can be ended")
	}
	init := &Child{PID: func() int { return 1 }}
	if os.Geteuid() != 0 && init.Can(t.Context()) == nil {
		t.Error("of another user's process something can be ended")
	}
}

// TestTraced: where no descriptor may be copied the child does it itself, while others talk to it all the time, and it is as before afterwards.
func TestTraced(t *testing.T) {
	if err := MayTrace(); err != nil {
		t.Skip(err)
	}
	c := startEchoes(t)
	e := &Child{PID: func() int { return c.process.Process.Pid }, copies: func(int, int) (int, error) { return 0, unix.EPERM }}
	if err := e.Can(t.Context()); err != nil {
		t.Errorf("of a process that may: %v", err)
	}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for range 4 {
		other := c.talk(t)
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := echo(other); err != nil {
					t.Errorf("one that talks meanwhile: %v", err)
					return
				}
			}
		})
	}
	for range 50 {
		c.endsOne(t, e.End)
	}
	close(stop)
	busy.Wait()
}

// TestUntraced: who may neither copy nor trace ends nothing, and says why.
func TestUntraced(t *testing.T) {
	why := errors.New("nobody is traced here")
	c := startEchoes(t)
	e := &Child{PID: func() int { return c.process.Process.Pid }, copies: func(int, int) (int, error) { return 0, unix.EPERM }, Untraced: func() error { return why }}
	stays := c.talk(t)
	if err := e.Can(t.Context()); !errors.Is(err, why) {
		t.Errorf("whether it can: %v", err)
	}
	if err := e.End(t.Context(), c.find(t, stays)); !errors.Is(err, why) || errors.Is(err, sockdiag.ErrGone) {
		t.Errorf("it ends: %v", err)
	}
	if err := echo(stays); err != nil {
		t.Error(err)
	}
}

// TestTracedWhileStopped: so it is where somebody stops the whole process again and again meanwhile, and lets it go on.
func TestTracedWhileStopped(t *testing.T) {
	if err := MayTrace(); err != nil {
		t.Skip(err)
	}
	c := startEchoes(t)
	e := &Child{PID: func() int { return c.process.Process.Pid }, copies: func(int, int) (int, error) { return 0, unix.EPERM }}
	stop := make(chan struct{})
	var stops sync.WaitGroup
	stops.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = c.process.Process.Signal(syscall.SIGSTOP), c.process.Process.Signal(syscall.SIGCONT)
				runtime.Gosched()
			}
		}
	})
	stays := c.talk(t)
	for range 20 {
		gone := c.talk(t)
		if err := e.End(t.Context(), c.find(t, gone)); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	stops.Wait()
	if err := echo(stays); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// echoes is a child that says again what it is told.
type echoes struct {
	process *exec.Cmd
	address string
}

func startEchoes(t *testing.T) *echoes {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), beChild+"=1")
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = child.Process.Kill(), child.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &echoes{child, strings.TrimSpace(line)}
}

// talk is a connection that the child has taken.
func (c *echoes) talk(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", c.address)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
		err = echo(conn)
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func echo(c net.Conn) error {
	if _, err := io.WriteString(c, "x"); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// find is the child's end of a connection.
func (c *echoes) find(t *testing.T, conn net.Conn) sockdiag.Connection {
	t.Helper()
	found, err := sockdiag.Find(netip.MustParseAddrPort(c.address), conn.LocalAddr().(*net.TCPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// endsOne: it, and nothing else.
func (c *echoes) endsOne(t *testing.T, end func(context.Context, sockdiag.Connection, ...sockdiag.Connection) error) {
	t.Helper()
	gone, stays := c.talk(t), c.talk(t)
	found := c.find(t, gone)
	other := found
	other.Cookie++
	if err := end(t.Context(), other); !errors.Is(err, sockdiag.ErrGone) {
		t.Errorf("another connection's cookie: %v", err)
	}
	if err := echo(gone); err != nil {
		t.Fatalf("nobody has ended it: %v", err)
	}
	if err := end(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client sees %v, want a reset", err)
	}
	if err := end(t.Context(), found); !errors.Is(err, sockdiag.ErrGone) {
		t.Errorf("a second time: %v", err)
	}
	if err := echo(stays); err != nil {
		t.Errorf("a neighbour: %v", err)
	}
}
