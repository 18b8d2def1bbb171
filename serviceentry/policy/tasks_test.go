package policy_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

var update = flag.Bool("update", false, "rewrite what testdata/tasks says")

// TestIstiosTasks holds what explain says of objects of the shape that the task pages of Istio's documentation have, and that lint has nothing to say of them but what is written down.
// A file of testdata/tasks is a page: objects.yaml beside services.yaml, mesh.yaml (may be missing), lint (what it says), and asks, a line each:
//
//	FROM URL [WORD=VALUE …] = VERDICT PATH [STATUS] CLUSTER by OBJECT [RULE][, pods VERDICT by OBJECT]
//
// "outside" is FROM of what comes to an ingress gateway. -update rewrites the right side and what lint says.
func TestIstiosTasks(t *testing.T) {
	files, err := filepath.Glob("testdata/tasks/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	services, err := os.ReadFile("testdata/tasks/services.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]*txtar.File{}
			for i := range a.Files {
				parts[a.Files[i].Name] = &a.Files[i]
			}
			for _, needed := range []string{"objects.yaml", "lint", "asks"} {
				if parts[needed] == nil {
					t.Fatalf("%s: there is no %s", file, needed)
				}
			}
			cfg := mesh.Default()
			if m := parts["mesh.yaml"]; m != nil {
				if cfg, err = mesh.Parse(m.Data); err != nil {
					t.Fatal(err)
				}
			}
			s := readWith(t, &cfg, string(services), string(parts["objects.yaml"].Data))
			told := linted(t, cfg, string(services), string(parts["objects.yaml"].Data))
			var asked strings.Builder
			for line := range strings.Lines(string(parts["asks"].Data)) {
				said, _, is := strings.Cut(strings.TrimSpace(line), " = ")
				if is && !strings.HasPrefix(said, "#") {
					line = said + " = " + shortly(answer(t, s, taskQuestion(t, said))) + "\n"
				}
				asked.WriteString(line)
			}
			for name, got := range map[string]string{"lint": told, "asks": asked.String()} {
				if want := string(parts[name].Data); got != want && !*update {
					t.Errorf("%s\n%s\nwant\n%s", name, got, want)
				}
				parts[name].Data = []byte(got)
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// linted is what lint says of a page's objects, a line each.
func linted(t *testing.T, cfg mesh.Config, services, objects string) string {
	t.Helper()
	var out strings.Builder
	all := decode.File("services.yaml", []byte(services)).Objects
	read := decode.File("objects.yaml", []byte(objects))
	findings := read.Findings
	for _, o := range read.Objects {
		findings = append(findings, admission.Validate(o)...)
		all = append(all, o)
	}
	for _, f := range append(findings, admission.Check(all, cfg)...) {
		out.WriteString(f.String() + "\n")
	}
	return out.String()
}

// taskQuestion reads the left side of a line.
func taskQuestion(t *testing.T, text string) policy.Question {
	t.Helper()
	words := strings.Fields(text)
	q := policy.Question{URL: words[1]}
	if q.From = words[0]; q.From == "outside" {
		q.From, q.Gateway = "", "istio-system/istio-ingressgateway"
	}
	for _, w := range words[2:] {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "method":
			q.Method = v
		case "header":
			q.Headers = append(q.Headers, v)
		case "claim":
			q.Claims = append(q.Claims, v)
		case "to":
			q.To = v
		case "account":
			q.Account = v
		case "address":
			q.Address = v
		case "gateway":
			q.Gateway = v
		case "plaintext":
			q.Plaintext = true
		default:
			t.Fatalf("%q: what is %q?", text, w)
		}
	}
	return q
}

// shortly is the right side.
func shortly(e policy.Explanation) string {
	out := e.Verdict + " " + e.Path
	if e.Status != 0 {
		out += fmt.Sprint(" ", e.Status)
	}
	out += " " + cmp.Or(e.Cluster, e.Location, "-") + " by " + quoted(e.DecidedBy)
	if e.WouldDeny != nil {
		out += ", would be denied by " + quoted(*e.WouldDeny)
	}
	for _, p := range e.Pods {
		out += ", pods " + p.Verdict + " by " + quoted(p.DecidedBy)
	}
	return out
}

func quoted(o policy.DecidedBy) string {
	return strings.TrimSpace(o.Kind + "/" + o.Namespace + "/" + o.Name + " " + o.Rule)
}
