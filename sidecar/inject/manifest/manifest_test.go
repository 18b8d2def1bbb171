package manifest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/sallyport/sallyport/sidecar/inject"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestGolden injects the file "in" of each archive by config.yaml. "want" is the file as it becomes, and "said" what
// became of each object.
func TestGolden(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, file := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			for _, f := range archive.Files {
				files[f.Name] = string(f.Data)
			}
			settings, err := inject.ParseSettings([]byte(files["config.yaml"]))
			if err != nil {
				t.Fatal(err)
			}
			out, outcomes, err := Inject([]byte(files["in"]), "default", settings)
			got := map[string]string{"want": string(out), "said": say(outcomes, err)}
			if *update {
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return got[f.Name] != "" || f.Name == "want" })
				for _, name := range []string{"said", "want"} {
					archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got[name])})
				}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for name, text := range got {
				if diff := cmp.Diff(files[name], text); diff != "" {
					t.Errorf("%s: -want +got:\n%s\nrun with -update when this is right", name, diff)
				}
			}
			if again, _, err := Inject(out, "default", settings); err != nil || !bytes.Equal(again, out) {
				t.Errorf("a second time it changes: %v\n%s", err, cmp.Diff(string(out), string(again)))
			}
		})
	}
}

func say(outcomes []Outcome, err error) string {
	var b strings.Builder
	for _, o := range outcomes {
		fmt.Fprintf(&b, "%d: %s: injected %v %s\n", o.Line, o.Object, o.Injected, o.Reason)
		for _, w := range o.Warnings {
			fmt.Fprintf(&b, "  warning: %s\n", w)
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	return b.String()
}

// FuzzInject: no panic; documents together are the file; what is not changed keeps its bytes.
func FuzzInject(f *testing.F) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archives {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	f.Add([]byte("--- {a: 1}\n---\n--- # c\nkind: Pod\napiVersion: v1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var all []byte
		for d := range documents(data) {
			all = append(append(all, d.before...), d.content...)
		}
		if !bytes.Equal(all, data) {
			t.Fatalf("%q became %q", data, all)
		}
		out, outcomes, err := Inject(data, "default", inject.Default())
		if err == nil && !slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Injected }) && !bytes.Equal(out, data) {
			t.Fatalf("%q became %q", data, out)
		}
	})
}
