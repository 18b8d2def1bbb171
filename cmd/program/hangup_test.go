package program

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHangUp: a service goes on, and says why nothing is read again; below nohup nothing happens; and who loses the terminal ends as by SIGTERM.
func TestHangUp(t *testing.T) {
	waits := func(t *testing.T, cmd *exec.Cmd) (line func() string) {
		t.Helper()
		lines := listen(t, cmd)
		line = func() string {
			lines.Scan()
			return lines.Text()
		}
		if got := line(); got != "waits" {
			t.Fatalf("it says %q", got)
		}
		return line
	}
	ends := func(t *testing.T, cmd *exec.Cmd, line func() string) {
		t.Helper()
		if got := line(); got != "is told" {
			t.Errorf("it says %q", got)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	t.Run("service", func(t *testing.T) {
		cmd := player(t, "wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		line := waits(t, cmd)
		for range 2 {
			_ = cmd.Process.Signal(syscall.SIGHUP)
			if got := line(); !strings.HasPrefix(got, "player: SIGHUP: ") {
				t.Errorf("it says %q", got)
			}
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		ends(t, cmd, line)
	})
	t.Run("nohup", func(t *testing.T) {
		plain := player(t, "wait")
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap "" HUP; exec "$0"`, plain.Path)
		cmd.Env, cmd.SysProcAttr = plain.Env, &syscall.SysProcAttr{Setsid: true}
		line := waits(t, cmd)
		_ = cmd.Process.Signal(syscall.SIGHUP)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		ends(t, cmd, line)
	})
	t.Run("terminal", func(t *testing.T) {
		master, slave := terminal(t)
		cmd := player(t, "wait")
		cmd.Stdin, cmd.SysProcAttr = slave, &syscall.SysProcAttr{Setsid: true, Setctty: true}
		line := waits(t, cmd)
		_ = slave.Close()
		_ = master.Close()
		ends(t, cmd, line)
	})
}

// terminal makes a terminal, and its other end.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return master, slave
}
