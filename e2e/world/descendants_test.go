package world

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// headlessEnv has this program end its first thread, and go on until its input does.
const headlessEnv = "SALLYPORT_TEST_HEADLESS"

func init() {
	if os.Getenv(headlessEnv) == "" {
		return
	}
	up := make(chan struct{})
	go func() {
		fmt.Println("up")
		close(up)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	<-up
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0) // of this thread: what is done before main is done by the first one
}

// TestExistsWithoutItsFirstThread holds that a process is not taken for gone while threads of its are left, which hold its files.
func TestExistsWithoutItsFirstThread(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), headlessEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	p, _, ok := readStat(cmd.Process.Pid)
	if !ok {
		t.Fatal("it is not there")
	}
	if err := Within(t.Context(), time.Minute, func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
		if err != nil || !strings.Contains(string(stat), ") Z ") {
			return fmt.Errorf("its first thread goes on: %s, %w", stat, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !p.Exists() {
		t.Error("it is taken for gone, and has threads")
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if p.Exists() {
		t.Error("it is taken for there, and has ended")
	}
}
