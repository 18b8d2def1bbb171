package program

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// playVariable makes the test's binary a program that behaves as its value says.
const playVariable = "SALLYPORT_PROGRAM_PLAYS"

func TestMain(m *testing.M) {
	if how := os.Getenv(playVariable); how != "" {
		os.Args = os.Args[:1]
		Main(&cobra.Command{Use: "player [arguments]", SilenceUsage: true, SilenceErrors: true, RunE: func(cmd *cobra.Command, _ []string) error {
			return play(cmd, how)
		}})
	}
	os.Exit(m.Run())
}

func play(cmd *cobra.Command, how string) error {
	switch how {
	case "fail":
		return errors.New("it broke")
	case "no":
		return AnswerNo{}
	case "wait", "hang":
		cmd.Println("waits") // cobra prints this to stderr
		<-cmd.Context().Done()
		cmd.Println("is told")
		if how == "hang" {
			select {}
		}
	}
	return nil
}

func player(t *testing.T, how string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), playVariable+"="+how)
	return cmd
}

func TestEnds(t *testing.T) {
	for how, want := range map[string]struct {
		code int
		said string
	}{"work": {Done, ""}, "fail": {Failed, "player: it broke\n"}, "no": {No, ""}} {
		cmd := player(t, how)
		said, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want.code || string(said) != want.said {
			t.Errorf("%s: exit code %d, %q; want %d, %q", how, code, said, want.code, want.said)
		}
	}
}

// listen starts a program, and gives the lines that it says on stderr.
func listen(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(said)
}

// TestSignals: the first ends the command's context, the next the process, whatever the command still does.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		how    string
		signal syscall.Signal
		want   string
	}{
		{"wait", syscall.SIGTERM, "exit status 0"},
		{"wait", syscall.SIGINT, "exit status 0"},
		{"hang", syscall.SIGTERM, "signal: terminated"},
		{"hang", syscall.SIGINT, "signal: interrupt"},
	} {
		cmd := player(t, c.how)
		lines := listen(t, cmd)
		lines.Scan() // waits
		_ = cmd.Process.Signal(c.signal)
		lines.Scan() // is told
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait()
		}()
		// The context ends a moment before the program lets go of signals.
		for again := true; again; {
			select {
			case <-ended:
				again = false
			case <-time.After(10 * time.Millisecond):
				if c.how == "hang" {
					_ = cmd.Process.Signal(c.signal)
				}
			}
		}
		if got := cmd.ProcessState.String(); got != c.want {
			t.Errorf("%s, %v: %s, want %s", c.how, c.signal, got, c.want)
		}
	}
}
