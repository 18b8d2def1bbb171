package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/e2e/story"
)

// TestDocumentedCommandsExist holds every call of ours that README and docs show in a shell block: a make target must
// exist, a program must know the subcommand and each long flag. CI runs the README's own test command (.ci/run).
func TestDocumentedCommandsExist(t *testing.T) {
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := story.FindPrograms(root)
	if err != nil {
		t.Fatal(err)
	}
	makefile := read(t, filepath.Join(root, "Makefile"))
	help := helpOf(map[string]string{
		"sallyport": programs.Sallyport, "sallyport-agent": programs.Agent, "sallyport-node": filepath.Join(root, "bin", "sallyport-node"),
	})
	for _, file := range documents(t, root) {
		for _, call := range append(shellCalls(read(t, file)), inlineCalls(read(t, file))...) {
			words := strings.Fields(call)
			for len(words) > 0 && (strings.Contains(words[0], "=") || words[0] == "sudo") {
				words = words[1:] // the call's environment
			}
			if len(words) < 2 {
				continue
			}
			switch name := filepath.Base(words[0]); name {
			case "make":
				for _, target := range words[1:] {
					if !strings.Contains(target, "=") && !strings.Contains(makefile, "\n"+target+":") {
						t.Errorf("%s: %q: the Makefile has no target %s", file, call, target)
					}
				}
			case "sallyport", "sallyport-agent", "sallyport-node":
				checkCall(t, file, call, words[1:], func(sub []string) (string, error) { return help(name, sub) })
			}
		}
	}
}

func TestCIRunsTheREADMEsTestCommand(t *testing.T) {
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	const command = "make test"
	if !strings.Contains(read(t, filepath.Join(root, "README.md")), command) {
		t.Errorf("README.md does not show %q", command)
	}
	if !regexp.MustCompile(`(?m)^` + command + `( |$)`).MatchString(read(t, filepath.Join(root, ".ci", "run"))) {
		t.Errorf(".ci/run does not call %q", command)
	}
}

// checkCall compares a call's subcommands and long flags with what the program's help lists.
func checkCall(t *testing.T, file, call string, words []string, help func([]string) (string, error)) {
	t.Helper()
	sub := words[:1]
	if len(words) > 1 && (words[0] == "audit" || words[0] == "review") {
		sub = words[:2]
	}
	if len(words) > 2 && words[1] == "lake" {
		sub = words[:3]
	}
	text, err := help(sub)
	if err != nil {
		t.Errorf("%s: %q: %v", file, call, err)
		return
	}
	for _, word := range words[len(sub):] {
		flag, _, _ := strings.Cut(word, "=")
		if strings.HasPrefix(flag, "--") && len(flag) > 2 && !strings.Contains(text, flag) {
			t.Errorf("%s: %q: the help knows no %s", file, call, flag)
		}
	}
}

// helpOf asks a program for a subcommand's help, once.
func helpOf(programs map[string]string) func(name string, sub []string) (string, error) {
	known := map[string]string{}
	return func(name string, sub []string) (string, error) {
		key := name + " " + strings.Join(sub, " ")
		if text, ok := known[key]; ok {
			return text, nil
		}
		out, err := exec.Command(programs[name], append(slices.Clone(sub), "--help")...).CombinedOutput()
		known[key] = string(out)
		return string(out), err
	}
}

// shellCalls lists the lines of ```sh blocks, one a call, without prompts and comments.
func shellCalls(markdown string) []string {
	var calls []string
	inside := false
	lines := bufio.NewScanner(strings.NewReader(strings.ReplaceAll(markdown, "\\\n", " ")))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside && (line == "```sh" || line == "```bash" || line == "```console")
		case inside && line != "" && !strings.HasPrefix(line, "#"):
			call, _, _ := strings.Cut(strings.TrimPrefix(line, "$ "), " #")
			calls = append(calls, call)
		}
	}
	return calls
}

// inlineCalls lists calls of our programs in the text, between backticks.
func inlineCalls(markdown string) []string {
	var calls []string
	for _, span := range codeSpans.FindAllStringSubmatch(markdown, -1) {
		if name, rest, ok := strings.Cut(span[1], " "); ok && (name == "sallyport" || strings.HasPrefix(name, "sallyport-")) && rest != "" {
			calls = append(calls, span[1])
		}
	}
	return calls
}

func documents(t *testing.T, root string) []string {
	t.Helper()
	files := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
