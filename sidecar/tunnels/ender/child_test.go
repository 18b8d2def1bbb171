package ender

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// beChild makes the test binary a process that says again what it is told.
const beChild = "SALLYPORT_TEST_CHILD"

func TestMain(m *testing.M) {
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
	if err := MayCopy(); err != nil {
		t.Skip(err)
	}
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
	address := strings.TrimSpace(line)
	talk := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	echo := func(c net.Conn) error {
		if _, err := io.WriteString(c, "x"); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	gone, stays := talk(), talk()
	for _, c := range []net.Conn{gone, stays} { // the child has taken them
		if err := echo(c); err != nil {
			t.Fatal(err)
		}
	}
	found, err := sockdiag.Find(netip.MustParseAddrPort(address), gone.LocalAddr().(*net.TCPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	e := Child{PID: func() int { return child.Process.Pid }}
	if err := e.Can(t.Context()); err != nil {
		t.Errorf("of a process that may: %v", err)
	}
	other := found
	other.Cookie++
	if err := e.End(t.Context(), other); !errors.Is(err, sockdiag.ErrGone) {
		t.Errorf("another connection's cookie: %v", err)
	}
	if err := echo(gone); err != nil {
		t.Fatalf("nobody has ended it: %v", err)
	}
	if err := e.End(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client sees %v, want a reset", err)
	}
	if err := e.End(t.Context(), found); !errors.Is(err, sockdiag.ErrGone) {
		t.Errorf("a second time: %v", err)
	}
	if err := echo(stays); err != nil {
		t.Errorf("a neighbour: %v", err)
	}
	none := Child{PID: func() int { return 0 }}
	if none.Can(t.Context()) == nil || errors.Is(none.End(t.Context(), found), nil) {
		t.Error("of a process that does not run something can be ended")
	}
	init := Child{PID: func() int { return 1 }}
	if os.Geteuid() != 0 && init.Can(t.Context()) == nil {
		t.Error("of another user's process something can be ended")
	}
}
