package translate_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/translate"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// testCase is one txtar file: objects.yaml, cluster/west.yaml and mesh.yaml (which may be missing), proxy (a node as JSON), and want.yaml, the
// resources. The archive's comment says what the case is about; a line "only: NAME…" keeps the golden to the
// resources whose names hold one of the words.
type testCase struct {
	archive *txtar.Archive
	file    string
	objects []config.Object
	mesh    mesh.Config
	node    translate.Node
	only    []string
}

func load(t testing.TB, file string) testCase {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := testCase{archive: a, file: file, mesh: mesh.Default()}
	c.node.DecidedTag = true // as all agents do but those of before
	for _, line := range strings.Split(string(a.Comment), "\n") {
		if rest, ok := strings.CutPrefix(line, "only: "); ok {
			c.only = strings.Fields(rest)
		}
	}
	for _, f := range a.Files {
		switch f.Name {
		case "objects.yaml":
			r := decode.File(f.Name, f.Data)
			for _, finding := range r.Findings {
				t.Errorf("%s: %s", file, finding)
			}
			c.objects = r.Objects
		case "mesh.yaml":
			if c.mesh, err = mesh.Parse(f.Data); err != nil {
				t.Fatal(err)
			}
		case "cluster/west.yaml": // of another cluster
			r := decode.File(f.Name, f.Data)
			for _, finding := range r.Findings {
				t.Errorf("%s: %s", file, finding)
			}
			for _, o := range r.Objects {
				o.Cluster = "west"
				c.objects = append(c.objects, o)
			}
		case "proxy":
			if err := json.Unmarshal(f.Data, &c.node); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

func (c testCase) view() *translate.View {
	s := c.snapshot()
	return translate.NewTranslator().Build(s, translate.Classify(s, c.node))
}

func (c testCase) snapshot() *registry.Snapshot {
	r := registry.New(&c.mesh)
	var changes []config.Change
	for i := range c.objects {
		changes = append(changes, config.Change{Key: c.objects[i].Key, Object: &c.objects[i]})
	}
	s, _ := r.Apply(changes)
	return s
}

func cases(t *testing.T) map[string]testCase {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens in testdata: %v", err)
	}
	out := map[string]testCase{}
	for _, f := range files {
		out[strings.TrimSuffix(filepath.Base(f), ".txtar")] = load(t, f)
	}
	return out
}

func TestGoldens(t *testing.T) {
	for name, c := range cases(t) {
		t.Run(name, func(t *testing.T) {
			got := render(t, c)
			want := ""
			for _, f := range c.archive.Files {
				if f.Name == "want.yaml" {
					want = string(f.Data)
				}
			}
			if *update {
				rewrite(t, c, got)
				return
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s differs (-want +got); -update rewrites it:\n%s", c.file, d)
			}
		})
	}
}

// render writes the resources as YAML, in sending order.
func render(t *testing.T, c testCase) string {
	t.Helper()
	dump, err := translate.Dump(c.view())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, kind := range []string{"secrets", "clusters", "onDemandClusters", "endpoints", "serverNames", "listeners", "routes", "virtualHosts", "names"} {
		kept := map[string]any{}
		for name, raw := range dump[kind] {
			if !c.keeps(name) {
				continue
			}
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatal(err)
			}
			kept[name] = v
		}
		if len(kept) == 0 {
			continue
		}
		text, err := yaml.Marshal(map[string]any{kind: kept})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}

func (c testCase) keeps(name string) bool {
	for _, word := range c.only {
		if strings.Contains(name, word) {
			return true
		}
	}
	return len(c.only) == 0
}

func rewrite(t *testing.T, c testCase, want string) {
	t.Helper()
	files := c.archive.Files[:0:0]
	for _, f := range c.archive.Files {
		if f.Name != "want.yaml" {
			files = append(files, f)
		}
	}
	c.archive.Files = append(files, txtar.File{Name: "want.yaml", Data: []byte(want)})
	if err := os.WriteFile(c.file, txtar.Format(c.archive), 0o600); err != nil {
		t.Fatal(err)
	}
	fmt.Println("rewrote", c.file)
}
