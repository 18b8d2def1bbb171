package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/cmd/program"
)

// TestHowTo: the calls that the how-to shows, and the examples of --help, are calls that this program takes.
func TestHowTo(t *testing.T) {
	text, err := os.ReadFile("../../docs/how-to/keep-the-log-in-object-storage.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, c := range rootCommand().Commands() {
		lines = append(lines, strings.Split(c.Example, "\n")...)
	}
	lines = append(lines, strings.Split(rootCommand().Example, "\n")...)
	n := 0
	for _, line := range lines {
		call, found := strings.CutPrefix(strings.TrimSpace(line), "sallyport-iceberg ")
		if !found {
			continue
		}
		n++
		words := strings.Fields(strings.ReplaceAll(call, "'", ""))
		cmd, rest, err := rootCommand().Find(words)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil || len(cmd.Flags().Args()) != 0 || cmd.Name() != words[0] {
			t.Errorf("%s: %v", line, err)
		}
	}
	if n < 8 {
		t.Errorf("%d calls", n)
	}
}

// TestExit: calls that cannot work end as such, and say what to write.
func TestExit(t *testing.T) {
	for call, want := range map[string]string{
		"sync": "--lake",
		"sync --lake /x --catalog https://c.test":     "--table",
		"run --lake /x --table a.b --catalog ftp://x": "--catalog",
		"status -o xml":   "-o",
		"sync --nonsense": "--nonsense",
		"run more":        "more",
	} {
		root := rootCommand()
		root.SetArgs(strings.Fields(call))
		err := root.Execute()
		var coded program.Coded
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &coded) || coded.ProcessExit() != program.Usage {
			t.Errorf("%s: %v", call, err)
		}
	}
}
