package admission_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
)

// now is the moment at which all is judged.
var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

var update = flag.Bool("update", false, "rewrite the expected findings in testdata")

// TestGolden lints the files of each archive: mesh.yaml as the settings, the others as objects. The file "want"
// holds the findings, one a line, first of each object and then of all together.
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
			var want string
			archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool {
				if f.Name == "want" {
					want = string(f.Data)
				}
				return f.Name == "want"
			})
			got := lint(t, archive.Files)
			if *update {
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != want {
				t.Errorf("got:\n%s\nrun with -update when this is right", got)
			}
		})
	}
}

func lint(t *testing.T, files []txtar.File) string {
	cfg := mesh.Default()
	var objects []config.Object
	var b strings.Builder
	for _, f := range files {
		if f.Name == "mesh.yaml" {
			var err error
			if cfg, err = mesh.Parse(f.Data); err != nil {
				t.Fatal(err)
			}
			continue
		}
		r := decode.File(f.Name, f.Data)
		for _, finding := range r.Findings {
			t.Errorf("cannot be read: %s", finding)
		}
		for _, o := range r.Objects {
			findings := admission.Validate(o)
			for _, finding := range findings {
				fmt.Fprintln(&b, finding)
				if finding.Fix == "" || finding.Message == "" {
					t.Errorf("half a finding: %#v", finding)
				}
			}
			if !admission.Refused(findings) {
				objects = append(objects, o)
			}
		}
	}
	findings := together(objects, cfg)
	for _, finding := range findings {
		fmt.Fprintln(&b, finding)
		if finding.Fix == "" || finding.Message == "" {
			t.Errorf("half a finding: %#v", finding)
		}
	}
	if n := len(objects); n > 1 {
		reversed := slices.Clone(objects)
		slices.Reverse(reversed)
		if again := together(reversed, cfg); !slices.Equal(findings, again) && !strings.Contains(b.String(), "there twice") {
			t.Errorf("in another order:\n%v", again)
		}
	}
	return b.String()
}

// together is what lint says of all objects.
func together(objects []config.Object, cfg mesh.Config) []admission.Finding {
	return append(admission.CheckAt(objects, cfg, now), admission.CheckGateways(objects, cfg)...)
}
