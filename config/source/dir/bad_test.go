package dir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
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

// A refused rule that asks for TLS is handed on as one that closes its host, until there is a good version of it; that one
// then stays.
func TestRefusedRuleForTLSIsHandedOn(t *testing.T) {
	rule := func(settings string) string {
		return "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r}\nspec: {host: a.com, trafficPolicy: {tls: {" + settings + "}}}\n"
	}
	key := config.Key{Kind: config.KindDestinationRule, Namespace: "default", Name: "r"}
	path := filepath.Join(t.TempDir(), "a.yaml")
	s := newStore(filepath.Dir(path))
	for _, step := range []struct {
		settings string
		refused  bool
	}{
		{"mode: SIMPEL", true}, {"mode: SIMPLE, sin: a.com", true}, {"mode: MUTUAL", true}, {"mode: MUTUAL, sni: a.com", true},
		{"mode: SIMPLE", false}, {"mode: MUTUAL", false}, {"mode: SIMPEL", false},
	} {
		if err := os.WriteFile(path, []byte(rule(step.settings)), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		s.put(read(candidate{path: path, info: info}, s))
		if o := s.object(path, key); o == nil || (o.Refused != "") != step.refused {
			t.Errorf("%s: %+v", step.settings, o)
		}
	}
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
