package howto

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Reader follows a document.
type Reader struct {
	Folder string // where he is
	// Command makes the command that runs a script by bash on a host ("" for his own) as a user (0 for himself), with his
	// environment.
	Command func(ctx context.Context, host string, user int, script string) *exec.Cmd
	// Start runs a script that stays, in the same way. It gives a function that says why it ended; nil while it runs.
	Start func(host string, user int, script string) (ended func() error, err error)
	// Judge looks at YAML that is not a file of the document's.
	Judge func(ctx context.Context, text string) error
	// Patience is how long he waits for what takes its time.
	Patience time.Duration
}

// Follow does what a block says.
func (r *Reader) Follow(ctx context.Context, b Block) error {
	switch {
	case b.Kind == YAML:
		return r.write(ctx, b)
	case b.Until != "":
		return r.stays(ctx, b)
	}
	for n, c := range b.Commands() {
		exits := b.Exits
		if slices.Contains(b.Fails, n+1) {
			exits = []int{-1}
		}
		prints := c.Print
		if prints == "" && n == len(b.Commands())-1 {
			prints = b.Prints
		}
		if err := r.command(ctx, b, c.Text, exits, prints); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) write(ctx context.Context, b Block) error {
	if b.File == "" {
		return r.Judge(ctx, b.Text)
	}
	path := filepath.Join(r.Folder, b.File)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.Text), 0o644)
}

// stays starts a block whose last command runs on, and waits until it is up.
func (r *Reader) stays(ctx context.Context, b Block) error {
	ended, err := r.Start(b.Host, b.User, b.Text)
	if err != nil {
		return err
	}
	return r.soon(ctx, func(ctx context.Context) (bool, error) {
		if err := ended(); err != nil {
			return true, fmt.Errorf("it does not stay: %w", err)
		}
		out, err := r.Command(ctx, b.Host, b.User, b.Until).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("it is not up: %s: %w\n%s", b.Until, err, out)
		}
		return err == nil, err
	})
}

// command runs a command. What prints something is a question, and may be asked again until the answer has come; so may
// a single line that fails. A block is pasted once.
func (r *Reader) command(ctx context.Context, b Block, text string, exits []int, prints string) error {
	return r.soon(ctx, func(ctx context.Context) (bool, error) {
		out, code, err := r.run(ctx, b, text)
		again := b.Kind != Shell
		if err == nil {
			if err = ended(exits, code); err == nil {
				err = printed(prints, out)
				again = true
			}
		}
		if err != nil {
			err = fmt.Errorf("%s%w\n%s", text, err, out)
		}
		return err == nil || !again, err
	})
}

// run gives what a script printed and its exit code. In a script of several commands, one that may fail does not end it.
func (r *Reader) run(ctx context.Context, b Block, text string) (string, int, error) {
	script := text
	if len(b.Exits) > 0 { // errors that are allowed go on; others end it
		script = "allowed() { local c=$?; case $c in " + strings.Trim(strings.ReplaceAll(fmt.Sprint(b.Exits), " ", "|"), "[]") + ") ;; *) exit $c;; esac; }\nset +e; trap allowed ERR\n" + text + "\nexit 0\n"
	}
	out, err := r.Command(ctx, b.Host, b.User, script).CombinedOutput()
	if ctx.Err() != nil { // it was ended: how it would have ended nobody knows
		return string(out), 0, ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), exit.ExitCode(), nil
	}
	return string(out), 0, err
}

// ended judges an exit code.
func ended(exits []int, code int) error {
	fails := slices.Contains(exits, -1)
	switch {
	case fails && code == 0:
		return errors.New("it succeeds, and should fail")
	case !fails && code != 0 && !slices.Contains(exits, code):
		return fmt.Errorf("it ends with %d", code)
	}
	return nil
}

// printed judges what was printed, loosely: the lines in order, each somewhere, and "…" for anything.
func printed(prints, out string) error {
	for line := range strings.Lines(prints) {
		line = strings.TrimSpace(line)
		at := 0
		for part := range strings.SplitSeq(line, "…") {
			part = strings.TrimSpace(part)
			i := strings.Index(out[at:], part)
			if i < 0 {
				return fmt.Errorf("it does not print %q", line)
			}
			at += i + len(part)
		}
		out = out[at:]
	}
	return nil
}

// soon calls f until it is done, or until patience ends; then it gives f's last error.
func (r *Reader) soon(ctx context.Context, f func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		done, err := f(ctx)
		if done {
			return err
		}
		if ctx.Err() == nil || last == nil { // an attempt that was cut off says less than the one before
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-tick.C:
		}
	}
}
