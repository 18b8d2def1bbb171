package decode

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestGolden reads the first file of each archive and compares what it holds with the second.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in := archive.Files[0]
			got := describe(File(in.Name, in.Data))
			if *update {
				archive.Files = []txtar.File{in, {Name: "want", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(archive.Files) != 2 || got != string(archive.Files[1].Data) {
				t.Errorf("got:\n%s\nrun with -update when this is right", got)
			}
		})
	}
}

func describe(r Result) string {
	var b strings.Builder
	fmt.Fprintln(&b, [...]string{"whole", "partial", "unreadable"}[r.State])
	for _, o := range r.Objects {
		fmt.Fprintf(&b, "object %s at %s", o.Key, o.Origin)
		if len(o.Labels)+len(o.Annotations) > 0 {
			fmt.Fprintf(&b, " labels %v annotations %v", o.Labels, o.Annotations)
		}
		fmt.Fprintln(&b)
	}
	for _, k := range r.Rejected {
		fmt.Fprintf(&b, "rejected %s\n", k)
	}
	for _, f := range r.Findings {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}
