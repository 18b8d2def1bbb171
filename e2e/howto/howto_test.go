package howto

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// scene is where a reader of a document is.
type scene struct {
	// set gives the reader, and what has to hold when he is through, if anything; it is nil for what is set elsewhere.
	set func(t *testing.T, document string) (r *Reader, after func())
}

var scenes = map[string]scene{
	"machine":   {set: onMachine},   // a machine with the programs, and a world outside
	"mesh":      {set: onHosts},     // three such, called controller, gateway and app
	"apiserver": {set: onAPIServer}, // where kubectl leads to an API server
	"registry":  {set: onRegistry},  // a machine with a registry
	"cluster":   {},                 // package incluster
}

// plays says of each document in which scene its blocks are run that name none.
var plays = map[string]string{
	"README.md":                         "machine",
	"allow-a-host.md":                   "machine",
	"routes.md":                         "machine",
	"ambient.md":                        "cluster",
	"ask-a-cluster.md":                  "cluster",
	"ask-about-ingress.md":              "machine",
	"audit-log.md":                      "machine",
	"authorize-at-the-gateway.md":       "mesh",
	"choose-dns-upstreams.md":           "machine",
	"close-dns-as-a-way-out.md":         "machine",
	"close-the-ways-around.md":          "cluster",
	"console.md":                        "machine",
	"detect.md":                         "machine",
	"external-authorization.md":         "mesh",
	"gateway-api.md":                    "cluster",
	"hold-what-is-used.md":              "mesh",
	"install-on-kubernetes.md":          "cluster",
	"keep-the-log-in-object-storage.md": "machine",
	"let-others-read-the-log.md":        "cluster",
	"machines.md":                       "mesh",
	"run-from-files.md":                 "mesh",
	"send-records.md":                   "machine",
	"several-clusters.md":               "cluster",
	"simulate.md":                       "machine",
	"speak-tls-to-a-host.md":            "apiserver",
	"suggest-and-review.md":             "machine",
	"tokens.md":                         "mesh",
	"verify.md":                         "machine",
	"write-a-policy.md":                 "mesh",
}

// mostLeftOut is how many blocks may be marked as not to be run: where another test does the same, mostly.
const mostLeftOut = 5

// TestDocuments runs every block of README and of the how-tos, but those of scenes that are set elsewhere.
func TestDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("runs what the documents show: not with -short")
	}
	for _, d := range documents(t) {
		byScene := map[string][]Block{}
		for _, b := range d.blocks {
			if b.Not == "" && b.Kind != Text {
				byScene[b.Scene] = append(byScene[b.Scene], b.Block)
			}
		}
		for name, blocks := range byScene {
			if scenes[name].set == nil {
				continue
			}
			t.Run(d.name+"/"+name, func(t *testing.T) {
				r, after := scenes[name].set(t, d.name)
				for _, b := range blocks {
					if err := r.Follow(t.Context(), b); err != nil {
						t.Fatalf("%s:%d: %v", d.path, b.Line, err)
					}
				}
				if after != nil {
					after()
				}
			})
		}
	}
}

// TestEveryBlockHasAScene: documents are known, scenes exist, and what is not run is little, and listed.
func TestEveryBlockHasAScene(t *testing.T) {
	left := 0
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if _, known := scenes[b.Scene]; !known {
				t.Errorf("%s:%d: there is no scene %q", d.path, b.Line, b.Scene)
			}
			if b.Scene == "cluster" && !b.named {
				t.Errorf("%s:%d: say by `run: in cluster` that this is run in a cluster, or where else", d.path, b.Line)
			}
			if b.Not != "" {
				left++
				t.Logf("not run: %s:%d: %s", d.path, b.Line, b.Not)
			}
		}
	}
	if left > mostLeftOut {
		t.Errorf("%d blocks are not run; at most %d may be", left, mostLeftOut)
	}
}

type document struct {
	name, path string
	blocks     []placed
}

// placed is a block with the scene that it is run in.
type placed struct {
	Block
	named bool // by itself
}

// documents reads README and the how-tos; blocks get the document's scene. YAML that a cluster is not needed for is looked
// at where there is none.
func documents(t *testing.T) []document {
	t.Helper()
	paths, err := filepath.Glob("../../docs/how-to/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []document
	for _, path := range append([]string{"../../README.md"}, paths...) {
		d := document{name: filepath.Base(path), path: path}
		scene, ok := plays[d.name]
		if !ok {
			t.Errorf("%s: say in plays where it is played", path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := Read(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, b := range blocks {
			p := placed{b, b.Scene != ""}
			switch {
			case p.named:
			case b.Kind == YAML && b.File == "" && scene == "cluster", b.Kind == Text, b.Not != "":
				p.Scene = "apiserver"
			default:
				p.Scene = scene
			}
			d.blocks = append(d.blocks, p)
		}
		found = append(found, d)
	}
	if len(found) != len(plays) {
		t.Errorf("%d documents, %d plays", len(found), len(plays))
	}
	return found
}

// TestFollow: a reader sees when something is wrong.
func TestFollow(t *testing.T) {
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"a block that works", "```sh\ntrue\nfalse || true\n```\n", true},
		{"one whose first line fails", "```sh\nfalse\ntrue\n```\n", false},
		{"in a pipe", "```sh\nfalse | true\n```\n", false},
		{"an answer no", "<!-- run: exits 0 or 1 -->\n```sh\n(exit 1)\ntrue\n```\n", true},
		{"a failure where no is an answer", "<!-- run: exits 0 or 1 -->\n```sh\n(exit 3)\ntrue\n```\n", false},
		{"what a session prints", "```console\n$ echo one two; echo three\none … \nthree\n```\n", true},
		{"something else", "```console\n$ echo one\ntwo\n```\n", false},
		{"the other order", "```console\n$ echo one; echo two\ntwo\none\n```\n", false},
		{"what should fail", "<!-- run: fails 2 -->\n```console\n$ true\n$ false\n```\n", true},
		{"and does not", "<!-- run: fails 1 -->\n```console\n$ true\n$ true\n```\n", false},
		{"what is printed at last", "<!-- run: prints done -->\n```sh\ntest -e file && echo done || touch file\n```\n", true},
		{"and is not", "<!-- run: prints done -->\n```sh\ntrue\n```\n", false},
		{"what stays", "<!-- run: stays until test -e up -->\n```sh\ntouch up\nsleep 1000\n```\n", true},
		{"and does not", "<!-- run: stays until test -e up -->\n```sh\nfalse\n```\n", false},
		{"a table", "<!-- run: table -->\n| call | |\n|---|---|\n| `true` | |\n| `false` | |\n", false},
		{"a file", "<!-- run: file a/b -->\n```yaml\nx: 1\n```\n```sh\ngrep -q 'x: 1' a/b\n```\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			blocks, err := Read(c.text)
			if err != nil {
				t.Fatal(err)
			}
			r := here(t, t.TempDir(), nil)
			if !c.ok { // what comes true does so when the machine gets to it
				r.Patience = 3 * time.Second
			}
			for _, b := range blocks {
				if err = r.Follow(t.Context(), b); err != nil {
					break
				}
			}
			if (err == nil) != c.ok {
				t.Errorf("%v", err)
			}
		})
	}
}

// judgeYAML finds out what a piece of YAML is, and asks who would read it.
func judgeYAML(ctx context.Context, sallyport, helm, text string) error {
	keys := map[string]bool{}
	for line := range strings.Lines(text) {
		if key, _, ok := strings.Cut(line, ":"); ok && key != "" && !strings.ContainsAny(key[:1], " #-") {
			keys[key] = true
		}
	}
	dir, err := os.MkdirTemp("", "howto-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "document.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	values, err := os.ReadFile("../../chart/values.yaml")
	if err != nil {
		return err
	}
	switch {
	case keys["kind"]:
		return exits(ctx, []int{0}, sallyport, "lint", file)
	case isValues(string(values), keys):
		return exits(ctx, []int{0}, helm, "template", "sallyport", "../../chart", "--kube-version", "1.36.1", "--values", file)
	default: // the mesh's settings
		return exits(ctx, []int{0, 1}, sallyport, "explain", "--config-dir", dirOf(dir), "--mesh-config", file, "--from", "default/app", "https://external.com")
	}
}

// isValues says whether the chart's values have all keys.
func isValues(values string, keys map[string]bool) bool {
	for key := range keys {
		if !strings.Contains("\n"+values, "\n"+key+":") {
			return false
		}
	}
	return true
}

// dirOf makes an empty folder in another.
func dirOf(dir string) string {
	empty := filepath.Join(dir, "objects")
	_ = os.Mkdir(empty, 0o755)
	return empty
}

func exits(ctx context.Context, codes []int, argv ...string) error {
	cmd := bash(ctx, quote(argv...))
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); !slices.Contains(codes, code) {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return nil
}
