package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// call runs a command line of the program, as main does.
func call(t *testing.T, args ...string) (stdout, stderr string, code int, err error) {
	t.Helper()
	root := rootCommand()
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), exitCode(err), err
}

// TestEveryCommandHelps: each has a line of its own, a page with an example, and refuses flags it does not know.
func TestEveryCommandHelps(t *testing.T) {
	var walk func(path []string, c *cobra.Command)
	walk = func(path []string, c *cobra.Command) {
		if c.Name() == "help" || c.Name() == "completion" {
			return
		}
		if c.Short == "" || (c.Runnable() && c.Example == "") {
			t.Errorf("%v: short %q, example %q", path, c.Short, c.Example)
		}
		if _, _, code, err := call(t, append(path[:len(path):len(path)], "--no-such-flag")...); code != exitUsage {
			t.Errorf("%v --no-such-flag: exit %d (%v)", path, code, err)
		}
		for _, sub := range c.Commands() {
			walk(append(path[:len(path):len(path)], sub.Name()), sub)
		}
	}
	walk(nil, rootCommand())
	if _, _, code, _ := call(t, "no-such-command"); code != exitUsage {
		t.Errorf("an unknown command: exit %d", code)
	}
	if out, _, code, _ := call(t); code != exitDone || !strings.Contains(out, "Exit codes") {
		t.Errorf("no command: exit %d, %s", code, out)
	}
}
