package translate_test

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// TestAgreementCases holds single worlds in which policy and proxies said different things, or might: each a file with
// objects.yaml, mesh.yaml (may be missing) and tries, a line each: FROM URL = VERDICT PATH OBJECT, where it matters with the rule of a policy that
// decides and the one that would deny: ", RULE, would deny RULE".
func TestAgreementCases(t *testing.T) {
	files, err := filepath.Glob("testdata/agreement/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) { holdCase(t, file, newDecoder()) })
		d := newDecoder()
		d.onUse = true
		t.Run(name+"-on-use", func(t *testing.T) { holdCase(t, file, d) })
	}
}

// holdCase tries what a file says.
func holdCase(t *testing.T, file string, d *decoder) {
	t.Helper()
	w, tries := readWorld(t, file, "tries")
	e := w.envoys(d)
	for line := range strings.Lines(tries) {
		x, want := readTry(t, line)
		if d.onUse {
			x.chance = 1
		}
		says := verdictOf
		if strings.Contains(want, ", ") {
			says = rulesOf
		}
		if got := says(decided(policy.Decide(e.snapshot, x.from, x.Destination))); got != want {
			t.Errorf("%s: Decide says %s, want %s", x, got, want)
		}
		got, steps, err := e.happens(x)
		if says(got) != want || err != nil {
			t.Errorf("%s: the proxies say %s, want %s (%v)\n  %s", x, says(got), want, err, strings.Join(steps, "\n  "))
		}
	}
}

func verdictOf(o observed) string {
	verdict := map[bool]string{true: "allow", false: "deny"}[o.Allowed]
	return fmt.Sprintf("%s %s %s/%s/%s", verdict, o.Path, o.DecidedBy.Kind, o.DecidedBy.Namespace, o.DecidedBy.Name)
}

func rulesOf(o observed) string {
	return fmt.Sprintf("%s, %s, would deny %s", verdictOf(o), cmp.Or(o.Rule, "-"), cmp.Or(o.WouldDeny, "-"))
}

// readWorld reads a file's objects, beside more, and its tries, which are in the part that kind names.
func readWorld(t *testing.T, file, kind string, more ...txtar.File) (w world, tries string) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w = world{objects: map[config.Key]*config.Object{}, mesh: mesh.Default()}
	for _, f := range append(a.Files, more...) {
		switch f.Name {
		case "objects.yaml":
			r := decode.File(f.Name, f.Data)
			for _, finding := range r.Findings {
				t.Fatal(finding)
			}
			for i := range r.Objects {
				w.objects[r.Objects[i].Key] = &r.Objects[i]
			}
		case "mesh.yaml":
			if w.mesh, err = mesh.Parse(f.Data); err != nil {
				t.Fatal(err)
			}
		case kind:
			tries = string(f.Data)
		}
	}
	if kind == "tries" {
		w.mesh.Audit.Mesh = mesh.MeshAll // so that the log says which Service it was
	}
	return w, tries
}

func readTry(t *testing.T, line string) (x tried, want string) {
	t.Helper()
	what, want, ok := strings.Cut(strings.TrimSpace(line), " = ")
	from, target, ok2 := strings.Cut(what, " ")
	if !ok || !ok2 {
		t.Fatalf("%q: want FROM URL = VERDICT PATH OBJECT", line)
	}
	x.chance = 1 // who does not speak TLS or HTTP speaks first
	var err error
	if x.from, err = policy.ParseWorkload(from); err != nil {
		t.Fatal(err)
	}
	if x.Destination, err = policy.ParseDestination(target); err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(target)
	x.as, x.path = u.Hostname(), strings.TrimPrefix(x.Path, "/")
	return x, want
}
