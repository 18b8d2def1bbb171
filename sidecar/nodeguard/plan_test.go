package nodeguard

import (
	"flag"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the plans in testdata")

// chosen is how a test case writes options.
type chosen struct {
	Namespaces                            []string
	Selectors                             string
	Exempt, PodNetworks, Allow            []string
	AllowUnknown, AllowSpoofed, NoSamples bool
}

func (c chosen) options(t *testing.T) Options {
	t.Helper()
	o := Options{Node: "here", Namespaces: c.Namespaces, AllowUnknown: c.AllowUnknown, AllowSpoofed: c.AllowSpoofed, NoLog: c.NoSamples}
	if c.Selectors == "" {
		c.Selectors = DefaultSelectors
	}
	var err error
	if o.NamespaceSelectors, err = ParseSelectors(c.Selectors); err != nil {
		t.Fatal(err)
	}
	for _, text := range c.Exempt {
		e, err := ParseExemption(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Exempt = append(o.Exempt, e)
	}
	if o.PodNetworks, err = ParseNetworks(c.PodNetworks); err != nil {
		t.Fatal(err)
	}
	if o.Allow, err = ParseNetworks(c.Allow); err != nil {
		t.Fatal(err)
	}
	return o
}

// read gives what a test case's files say; a file may be missing.
func read(t *testing.T, archive *txtar.Archive) (o Options, v View, want string) {
	t.Helper()
	var c chosen
	for _, f := range archive.Files {
		var err error
		switch f.Name {
		case "options.yaml":
			err = yaml.UnmarshalStrict(f.Data, &c)
		case "view.yaml":
			err = yaml.UnmarshalStrict(f.Data, &v)
		case "plan.nft":
			want = string(f.Data)
		}
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
	}
	return c.options(t), v, want
}

func TestGoldens(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	for _, name := range cases {
		t.Run(filepath.Base(name), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			o, v, want := read(t, archive)
			plan, err := Build(o, v)
			got := ""
			if err != nil {
				got = "error: " + err.Error() + "\n"
			} else {
				got = plan.Text()
			}
			if *update {
				archive.Files = append(archive.Files[:0:0], archive.Files...)
				if last := len(archive.Files) - 1; archive.Files[last].Name == "plan.nft" {
					archive.Files = archive.Files[:last]
				}
				archive.Files = append(archive.Files, txtar.File{Name: "plan.nft", Data: []byte(got)})
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-update rewrites it)\n%s", diff)
			}
			// The same objects in any order are the same plan.
			for range 10 {
				rand.Shuffle(len(v.Pods), func(i, j int) { v.Pods[i], v.Pods[j] = v.Pods[j], v.Pods[i] })
				rand.Shuffle(len(v.Nodes), func(i, j int) { v.Nodes[i], v.Nodes[j] = v.Nodes[j], v.Nodes[i] })
				rand.Shuffle(len(v.Services), func(i, j int) { v.Services[i], v.Services[j] = v.Services[j], v.Services[i] })
				again, _ := Build(o, v)
				if diff := cmp.Diff(plan, again, cmp.Comparer(samePrefix), cmp.Comparer(sameAddr)); diff != "" {
					t.Fatalf("in another order:\n%s", diff)
				}
			}
		})
	}
}

func samePrefix(a, b netip.Prefix) bool { return a == b }
func sameAddr(a, b netip.Addr) bool     { return a == b }
