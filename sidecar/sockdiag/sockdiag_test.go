package sockdiag

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is both ends of a connection over loopback.
func pair(t *testing.T, address string) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

func addresses(c net.Conn) (local, remote netip.AddrPort) {
	return c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
}

// TestListening: what is listened to is found, over each family, and nothing else, whatever connections there are.
func TestListening(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Skip(err)
		}
		client, _ := pair(t, "127.0.0.1:0")
		listens := func(port int) (found bool) {
			t.Helper()
			if err := Listening(func(p uint16) { found = found || int(p) == port }); err != nil {
				t.Fatal(err)
			}
			return found
		}
		if !listens(l.Addr().(*net.TCPAddr).Port) {
			t.Errorf("%s is not found", l.Addr())
		}
		if listens(client.LocalAddr().(*net.TCPAddr).Port) {
			t.Error("a connection's port is taken for one that is listened to")
		}
		_ = l.Close()
	}
}

func TestFind(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		client, server := pair(t, address)
		found, err := Find(addresses(server))
		if err != nil || found.Cookie == 0 {
			t.Fatalf("%s: %+v %v", address, found, err)
		}
		seen := false
		if err := Open(func(c Connection) { seen = seen || c == found }); err != nil || !seen {
			t.Errorf("%s: not among the open ones: %v", address, err)
		}
		other, err := Find(addresses(client))
		if err != nil || other.Cookie == found.Cookie {
			t.Errorf("%s: the other end: %+v %v", address, other, err)
		}
		local, remote := addresses(server)
		if _, err := Find(local, netip.AddrPortFrom(remote.Addr(), 1)); !errors.Is(err, ErrGone) {
			t.Errorf("%s: a client that is not there: %v", address, err)
		}
	}
}

func TestEnd(t *testing.T) {
	client, server := pair(t, "127.0.0.1:0")
	neighbour, its := pair(t, "127.0.0.1:0")
	found, err := Find(addresses(server))
	if err != nil {
		t.Fatal(err)
	}
	stale := found
	stale.Cookie++
	if err := End(stale); !errors.Is(err, ErrGone) {
		t.Errorf("another connection's cookie: %v", err)
	}
	may := MayEnd()
	err = End(found)
	if (err == nil) != (may == nil) {
		t.Fatalf("it is said that connections can be ended (%v), and one was (%v)", may, err)
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client sees %v, want a reset", err)
	}
	if err := End(found); !errors.Is(err, ErrGone) {
		t.Errorf("a second time: %v", err)
	}
	if _, err := neighbour.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(its, make([]byte, 1)); err != nil {
		t.Error("a neighbour:", err)
	}
}

// TestEndTogether: both of a proxy's connections are reset at once, so that neither of those whom it stands between is told of a good end.
func TestEndTogether(t *testing.T) {
	client, here := pair(t, "127.0.0.1:0")
	there, server := pair(t, "127.0.0.1:0")
	down, err := Find(addresses(here))
	if err != nil {
		t.Fatal(err)
	}
	up, err := Find(addresses(there))
	if err != nil {
		t.Fatal(err)
	}
	stale := up
	stale.Cookie++
	if err := End(down, stale, up); errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]net.Conn{"the client": client, "the server": server} {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s sees %v, want a reset", name, err)
		}
	}
	if err := End(down, up); !errors.Is(err, ErrGone) {
		t.Errorf("a second time: %v", err)
	}
}

// TestWithoutRights: a process that has no right to end connections knows that, though it may look for them.
func TestWithoutRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("TestEnd is without rights here")
	}
	body, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "nobody") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "test")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, body, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestEnd$", "-test.v")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- SKIP: TestEnd") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestEndWantsACookie(t *testing.T) {
	_, server := pair(t, "127.0.0.1:0")
	local, remote := addresses(server)
	if err := End(Connection{Local: local, Remote: remote}); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("a connection without its cookie: %v", err)
	}
}

// TestActivities: what has come on a connection is counted, and when something moved last is known.
func TestActivities(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		client, server := pair(t, address)
		found, err := Find(addresses(server))
		if err != nil {
			t.Fatal(err)
		}
		said := bytes.Repeat([]byte("x"), 1234)
		_, err = client.Write(said)
		if err == nil {
			_, err = io.ReadFull(server, said)
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []Activity
		if err := Activities(func(a Activity) {
			if a.Connection == found {
				got = append(got, a)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].Received != 1234 || got[0].Quiet < 0 || got[0].Quiet > time.Hour {
			t.Errorf("%s: %+v", address, got)
		}
	}
}

// TestActivityOfOddAnswers: what the kernel does not say is 0.
func TestActivityOfOddAnswers(t *testing.T) {
	for _, odd := range [][]byte{nil, {1}, {0, 0, 2, 0}, {255, 255, 2, 0}, {8, 0, 2, 0, 1, 2, 3, 4}, {5, 0, 1, 0, 9}, {4, 0, 1, 0, 4, 0, 2, 0}} {
		if got := activity(odd, Connection{Cookie: 7}); got != (Activity{Connection: Connection{Cookie: 7}}) {
			t.Errorf("%v: %+v", odd, got)
		}
	}
}

// TestHalfClosed: what has been said to be all is found as long as somebody here holds it, and its other end has not said so, too.
func TestHalfClosed(t *testing.T) {
	found := func(c net.Conn) (is bool) {
		t.Helper()
		local, remote := addresses(c)
		if err := HalfClosed(func(a Activity) { is = is || a.Local == local && a.Remote == remote }); err != nil {
			t.Fatal(err)
		}
		return is
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		client, server := pair(t, address)
		if found(client) {
			t.Errorf("%s: one that is open both ways", address)
		}
		if err := client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		_, err := server.Write([]byte("x"))
		if _, read := client.Read(make([]byte, 1)); errors.Join(err, read) != nil { // so it was heard that all has come
			t.Fatal(err, read)
		}
		if !found(client) || found(server) {
			t.Errorf("%s: the one who has said all is found: %v, the other one: %v", address, found(client), found(server))
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		if found(client) {
			t.Errorf("%s: one that nobody holds any more", address)
		}
	}
}
