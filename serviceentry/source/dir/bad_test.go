package dir

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestBrokenFileKeepsItsObjects(t *testing.T) {
	r := start(t, t.TempDir(), time.Hour)
	r.write("a.yaml", entry("a", "a.com")+entry("b", "b.com"))
	r.until("a=a.com", "b=b.com")
	r.write("a.yaml", entry("a", "new.com")+"a: [\n")
	r.untilFinding("not YAML")
	r.until("a=a.com", "b=b.com")
	if f := r.Findings(); len(f) != 1 || !strings.Contains(f[0].Fix, "until then the last good version") {
		t.Errorf("findings %v", f)
	}
	r.write("a.yaml", entry("a", "new.com"))
	r.until("a=new.com")
	if f := r.Findings(); len(f) > 0 {
		t.Errorf("mended, but %v", f)
	}
}

func TestInvalidObjectKeepsItsLastGoodVersion(t *testing.T) {
	r := start(t, t.TempDir(), time.Hour)
	r.write("a.yaml", entry("a", "a.com")+entry("b", "b.com")+entry("c", "c.com"))
	r.until("a=a.com", "b=b.com", "c=c.com")
	unknown := strings.Replace(entry("c", "c2.com"), "hosts", "host", 1)
	r.write("a.yaml", entry("a", "a2.com")+entry("b", "*")+unknown+entry("d", "*"))
	r.until("a=a2.com", "b=b.com", "c=c.com")
	r.untilFinding(`unknown field; did you mean "hosts"?; until then its last good version is used`)
	if f := r.Findings(); len(f) != 3 {
		t.Errorf("findings %v", f)
	}
	r.write("a.yaml", entry("a", "a2.com"))
	r.until("a=a2.com")
}

func TestNamelessDocumentRemovesNothing(t *testing.T) {
	r := start(t, t.TempDir(), time.Hour)
	r.write("a.yaml", entry("a", "a.com")+entry("b", "b.com"))
	r.until("a=a.com", "b=b.com")
	r.write("a.yaml", entry("a", "a2.com")+strings.Replace(entry("b", "b2.com"), "name: b", "", 1))
	r.until("a=a2.com", "b=b.com")
	r.untilFinding("has no name")
}

func TestSameObjectInTwoFiles(t *testing.T) {
	r := start(t, t.TempDir(), time.Hour)
	r.write("b.yaml", entry("x", "b.com"))
	r.until("x=b.com")
	r.write("a.yaml", entry("x", "a.com"))
	r.until("x=a.com")
	r.untilFinding("b.yaml:1: warning: ServiceEntry default/x: metadata.name: \"x\": the object is there twice; the one at a.yaml:1 is used")
	r.write("b.yaml", entry("x", "b2.com"))
	r.write("mark.yaml", entry("mark", "m.com"))
	r.until("mark=m.com", "x=a.com")
	must(t, os.Remove(r.root+"/a.yaml"))
	r.until("mark=m.com", "x=b2.com")
	if f := r.Findings(); len(f) > 0 {
		t.Errorf("findings %v", f)
	}
}

func TestFindingsAreSaidOnce(t *testing.T) {
	r := start(t, t.TempDir(), 20*time.Millisecond)
	r.write("a.yaml", entry("a", "*"))
	r.untilFinding("every host")
	r.write("a.yaml", "# moved by a line\n"+entry("a", "*"))
	r.write("b.yaml", entry("b", "b.com"))
	r.until("b=b.com")
	r.write("b.yaml", entry("b", "b2.com")) // some scans later
	r.until("b=b2.com")
	if n := strings.Count(r.log.String(), "every host"); n != 1 || len(r.heard) != 1 {
		t.Errorf("said %d times in the log, heard %v", n, r.heard)
	}
	for r.Findings()[0].Origin != "a.yaml:2" {
		r.write("c.yaml", entry("c", time.Now().Format("x150405000000.com")))
		r.next()
	}
}

func TestUnreadableFile(t *testing.T) {
	r := start(t, t.TempDir(), time.Hour)
	r.write("a.yaml", entry("a", "a.com"))
	r.until("a=a.com")
	if os.Getuid() == 0 {
		// Root reads everything; a file that is too large cannot be read either.
		must(t, os.Truncate(r.root+"/a.yaml", 65<<20))
		r.untilFinding("at most 67108864 are read")
	} else {
		must(t, os.Chmod(r.root+"/a.yaml", 0))
		r.untilFinding("permission denied")
	}
	r.until("a=a.com")
}
