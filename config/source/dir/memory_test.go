package dir

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

// denial is a policy's YAML that closes a host.
func denial(host string) string {
	return "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: p, namespace: a, labels: {team: x}, creationTimestamp: \"2024-01-02T03:04:05Z\"}\n" +
		"spec: {rules: [{action: Deny, hosts: [\"" + host + "\"], reason: 'a \"reason\"'}]}\n---\n"
}

// once runs a source until it has handed on what there is, and gives that, and what was found.
func once(t *testing.T, root, memory string) (held map[config.Key]*config.Object, found []admission.Finding) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held = map[config.Key]*config.Object{}
	if err := New(root, Options{Memory: memory}).Run(ctx, func(batch []config.Change, findings []admission.Finding) {
		for _, c := range batch {
			held[c.Key] = c.Object
		}
		found = findings
		cancel()
	}); err != nil {
		t.Fatal(err)
	}
	return held, found
}

// TestRestartOpensNothing: what a policy closed stays closed over a restart, whatever became of its file meanwhile, but that it was removed.
func TestRestartOpensNothing(t *testing.T) {
	key := config.Key{Kind: config.KindEgressPolicy, Namespace: "a", Name: "p"}
	for name, c := range map[string]struct {
		then string
		want string // the host that is closed; "" for none
		said string
	}{
		"as it was":        {denial("x.test") + entry("e", "e.com"), "x.test", ""},
		"edited":           {denial("y.test"), "y.test", ""},
		"refused":          {denial("y.test:443"), "x.test", "until then its last good version is used"},
		"a field misspelt": {strings.Replace(denial("y.test"), "hosts", "hsots", 1), "x.test", "until then its last good version is used"},
		"no YAML":          {denial("y.test") + "a: [\n", "x.test", "until then the last good version"},
		"nobody's":         {strings.Replace(denial("y.test"), "name: p", "title: p", 1), "x.test", "has no name"},
		"empty":            {"", "x.test", "the file is empty; what it held stays in use"},
		"removed from it":  {entry("e", "e.com"), "", ""},
		"a comment":        {"# nothing any more\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root, memory := t.TempDir(), filepath.Join(t.TempDir(), "memory")
			file := filepath.Join(root, "deep", "p.yaml")
			write(t, file, denial("x.test")+entry("e", "e.com"))
			first, _ := once(t, root, memory)
			write(t, file, c.then)
			for range 2 { // and over another one
				held, found := once(t, root, memory)
				var texts []string
				for _, f := range found {
					texts = append(texts, f.String())
				}
				if said := strings.Join(texts, "\n"); !strings.Contains(said, c.said) || c.said == "" && said != "" {
					t.Errorf("said %q, want %q", said, c.said)
				}
				o := held[key]
				if (o != nil) != (c.want != "") {
					t.Fatalf("%+v", held)
				}
				if o == nil {
					continue
				}
				if got := o.Spec.(*v1alpha1.EgressPolicy).Rules[0].Hosts[0]; got != c.want {
					t.Errorf("closed is %s", got)
				}
				if c.want == "x.test" && o.Hash != first[key].Hash {
					t.Errorf("it is another object: %+v", o)
				}
			}
		})
	}
}

// TestForgottenAtTheEnd: of what was removed, while the control plane ran or while it did not, nothing is left behind.
func TestForgottenAtTheEnd(t *testing.T) {
	root, memory := t.TempDir(), filepath.Join(t.TempDir(), "memory")
	remembered := func() int {
		files, err := filepath.Glob(filepath.Join(memory, "*", "*"))
		must(t, err)
		return len(files)
	}
	write(t, root+"/a.yaml", denial("x.test"))
	write(t, root+"/b.yaml", entry("b", "b.com"))
	once(t, root, memory)
	if n := remembered(); n != 1 {
		t.Errorf("%d files, and one closes something", n)
	}
	must(t, os.Remove(root+"/a.yaml"))
	if held, _ := once(t, root, memory); len(held) != 1 || remembered() != 0 {
		t.Errorf("%v, and %d files are left", held, remembered())
	}
	other := t.TempDir()
	write(t, other+"/a.yaml", denial("x.test"))
	once(t, other, memory)
	write(t, root+"/a.yaml", "a: [\n")
	if held, _ := once(t, root, memory); len(held) != 1 {
		t.Errorf("another directory's objects came: %v", held)
	}
}

// TestEmptiedFileKeepsItsObjects: a full disk leaves a file empty, and so does who begins to write it.
func TestEmptiedFileKeepsItsObjects(t *testing.T) {
	r := start(t, t.TempDir(), patience)
	r.write("a.yaml", entry("a", "a.com"))
	r.until("a=a.com")
	r.write("a.yaml", "")
	r.untilFinding("the file is empty; what it held stays in use")
	r.until("a=a.com")
	r.write("a.yaml", entry("a", "b.com"))
	r.until("a=b.com")
	if f := r.Findings(); len(f) > 0 {
		t.Errorf("findings %v", f)
	}
	r.write("a.yaml", "")
	r.write("b.yaml", entry("b", "b.com"))
	r.until("a=b.com", "b=b.com")
	must(t, os.Remove(r.root+"/a.yaml"))
	r.until("b=b.com")
	if f := r.Findings(); len(f) > 0 {
		t.Errorf("findings %v", f)
	}
}

// TestNothingRemembered: a folder that nothing can be written to stops nothing.
func TestNothingRemembered(t *testing.T) {
	root, memory := t.TempDir(), filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(memory, nil, 0o600))
	write(t, root+"/a.yaml", denial("x.test"))
	if held, _ := once(t, root, memory); len(held) != 1 {
		t.Errorf("%v", held)
	}
}
