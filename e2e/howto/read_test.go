package howto

import (
	"reflect"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	const text = "# Title\n\n1. First:\n\n   <!-- run: on gateway as 1337; stays until true -->\n   ```sh\n   one \\\n     --flag\n   ```\n\n" +
		"<!-- run: file a/b.yaml -->\n```yaml\nx: 1\n```\n\n```console\n$ cat > f <<'END'\nhello\nEND\n$ cat f  # why\nhello\n```\n\n" +
		"<!-- run: table -->\n| call | shows |\n|---|---|\n| `curl x` | `y` |\n\n| not | one |\n\n<!-- run: not here: no way out; really -->\n```sh\nfetch\n```\n"
	got, err := Read(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{Kind: Shell, Line: 7, Text: "one \\\n  --flag\n", Note: Note{Host: "gateway", User: 1337, Until: "true"}},
		{Kind: YAML, Line: 13, Text: "x: 1\n", Note: Note{File: "a/b.yaml"}},
		{Kind: Console, Line: 17, Text: "$ cat > f <<'END'\nhello\nEND\n$ cat f  # why\nhello\n"},
		{Kind: Table, Line: 25, Text: "| call | shows |\n|---|---|\n| `curl x` | `y` |\n", Note: Note{table: true}},
		{Kind: Shell, Line: 33, Text: "fetch\n", Note: Note{Not: "no way out; really"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	commands := got[2].Commands()
	if len(commands) != 2 || commands[0].Text != "cat > f <<'END'\nhello\nEND\n" || commands[1].Print != "hello\n" {
		t.Errorf("a session: %+v", commands)
	}
	if commands := got[3].Commands(); len(commands) != 1 || commands[0].Text != "curl x\n" {
		t.Errorf("a table: %+v", commands)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, text := range []string{
		"```sh\nx\n", "<!-- run: sometimes -->\n```sh\nx\n```\n", "<!-- run: file x -->\ntext\n```yaml\n```\n", "<!-- run: file x -->\n",
		"<!-- run: exits one -->\n```sh\nx\n```\n", "<!-- run: stays -->\n```sh\nx\n```\n",
	} {
		if got, err := Read(text); err == nil {
			t.Errorf("%q was read as %+v", strings.ReplaceAll(text, "\n", "⏎"), got)
		}
	}
}
