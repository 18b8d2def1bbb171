package dir

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
)

func TestFirstBatch(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/b.yaml", entry("b1", "b1.com")+entry("b2", "b2.com"))
	write(t, root+"/a.yml", entry("a", "a.com"))
	write(t, root+"/sub/deep/c.json", `{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"name":"c"},"spec":{"hosts":["c.com"],"ports":[{"number":443,"name":"tls","protocol":"TLS"}],"resolution":"DNS"}}`)
	for _, ignored := range []string{".hidden.yaml", ".git/x.yaml", "x.yaml~", "#x.yaml#", ".x.yaml.swp", "README.md", "x.yaml.bak"} {
		write(t, root+"/"+ignored, entry("ignored", "ignored.com"))
	}
	r := start(t, root, time.Hour)
	r.until("a=a.com", "b1=b1.com", "b2=b2.com", "c=c.com")
	if f := r.Findings(); len(f) > 0 {
		t.Errorf("findings %v", f)
	}
}

func TestEmptyDirectoryIsABatch(t *testing.T) {
	r := start(t, t.TempDir(), time.Hour)
	r.until()
	r.write("a.yaml", entry("a", "a.com"))
	r.until("a=a.com")
}

func TestNoDirectory(t *testing.T) {
	never := func([]config.Change, []admission.Finding) { t.Error("out was called") }
	err := New(t.TempDir()+"/none", Options{}).Run(context.Background(), never)
	if err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("Run: %v", err)
	}
}

func TestEdits(t *testing.T) {
	r := start(t, t.TempDir(), time.Hour)
	r.write("a.yaml", entry("a", "a.com")+entry("b", "b.com"))
	r.until("a=a.com", "b=b.com")

	r.write("a.yaml", "# only a comment is new\n"+entry("a", "a.com")+entry("b", "new.com"))
	if b := r.next(); len(b.changes) != 1 || b.changes[0].Key.Name != "b" || b.changes[0].Object.Origin != "a.yaml:10" {
		t.Errorf("one object changed, the batch has %v", b.changes)
	}

	// As editors do it: a new file takes the old one's place.
	write(t, r.root+"/.a.yaml.tmp", entry("a", "renamed.com"))
	must(t, os.Rename(r.root+"/.a.yaml.tmp", r.root+"/a.yaml"))
	r.until("a=renamed.com")

	must(t, os.Rename(r.root+"/a.yaml", r.root+"/b.yaml"))
	r.write("c.yaml", entry("c", "c.com"))
	r.until("a=renamed.com", "c=c.com")

	must(t, os.Remove(r.root+"/b.yaml"))
	r.until("c=c.com")
}

func TestDirectories(t *testing.T) {
	r := start(t, t.TempDir(), time.Hour)
	r.write("one/two/a.yaml", entry("a", "a.com"))
	r.until("a=a.com")
	r.write("one/two/b.yaml", entry("b", "b.com"))
	r.until("a=a.com", "b=b.com")
	for _, to := range []string{"zwei", "eins"} { // after and before its old name
		from := map[string]string{"zwei": "one", "eins": "zwei"}[to]
		must(t, os.Rename(filepath.Join(r.root, from), filepath.Join(r.root, to)))
		r.write("mark.yaml", entry("mark", to+".com"))
		r.until("a=a.com", "b=b.com", "mark="+to+".com")
		r.write(to+"/two/b.yaml", entry("b", "in-"+to+".com"))
		r.until("a=a.com", "b=in-"+to+".com", "mark="+to+".com")
		r.write(to+"/two/b.yaml", entry("b", "b.com"))
		r.until("a=a.com", "b=b.com", "mark="+to+".com")
	}
	must(t, os.RemoveAll(r.root+"/eins"))
	r.until("mark=eins.com")
	r.write("eins/a.yaml", entry("a", "again.com"))
	r.until("a=again.com", "mark=eins.com")
}

func TestRootRemovedAndBack(t *testing.T) {
	root := t.TempDir() + "/conf"
	write(t, root+"/a.yaml", entry("a", "a.com"))
	r := start(t, root, time.Hour)
	r.until("a=a.com")
	must(t, os.Rename(root, root+".old"))
	r.untilFinding("is gone")
	r.until("a=a.com")
	must(t, os.Mkdir(root, 0o755))
	r.write("b.yaml", entry("b", "b.com"))
	r.until("b=b.com")
	r.write("b.yaml", entry("b", "c.com"))
	r.until("b=c.com")
	if f := r.Findings(); len(f) > 0 {
		t.Errorf("the directory is back, but %v", f)
	}
}

// TestConfigMap does what a kubelet does with a mounted ConfigMap.
func TestConfigMap(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/..v1/a.yaml", entry("a", "v1.com"))
	must(t, os.Symlink("..v1", root+"/..data"))
	must(t, os.Symlink("..data/a.yaml", root+"/a.yaml"))
	r := start(t, root, time.Hour)
	r.until("a=v1.com")
	for from, to := range map[string]string{"..v1": "..v2"} {
		write(t, root+"/"+to+"/a.yaml", entry("a", "v2.com"))
		must(t, os.Symlink(to, root+"/..data_tmp"))
		must(t, os.Rename(root+"/..data_tmp", root+"/..data"))
		must(t, os.RemoveAll(root+"/"+from))
	}
	r.until("a=v2.com")
	if len(r.heard) > 0 {
		t.Errorf("findings %v", r.heard)
	}
}

func TestRootIsALink(t *testing.T) {
	base := t.TempDir()
	write(t, base+"/v1/a.yaml", entry("a", "v1.com"))
	write(t, base+"/v2/a.yaml", entry("a", "v2.com"))
	must(t, os.Symlink("v1", base+"/current"))
	r := start(t, base+"/current", time.Hour)
	r.until("a=v1.com")
	must(t, os.Symlink("v2", base+"/next"))
	must(t, os.Rename(base+"/next", base+"/current"))
	r.until("a=v2.com")
	write(t, base+"/v2/a.yaml", entry("a", "v3.com"))
	r.until("a=v3.com")
}

func TestLinkedDirectories(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	write(t, other+"/a.yaml", entry("a", "a.com"))
	must(t, os.Symlink(other, root+"/linked"))
	must(t, os.Symlink(root, root+"/loop"))
	r := start(t, root, time.Hour)
	r.until("a=a.com")
	write(t, other+"/a.yaml", entry("a", "b.com"))
	r.until("a=b.com")
}

// TestRescan changes what no event tells of: a link's target elsewhere.
func TestRescan(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	write(t, other+"/a.yaml", entry("a", "a.com"))
	must(t, os.Symlink(other+"/a.yaml", root+"/a.yaml"))
	r := start(t, root, 50*time.Millisecond)
	r.until("a=a.com")
	write(t, other+"/a.yaml", entry("a", "later.com"))
	r.until("a=later.com")
}
