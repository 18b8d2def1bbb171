package admission_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
)

// FuzzFindings judges whatever can be decoded: no panic, and every finding says what is wrong and what to do.
func FuzzFindings(f *testing.F) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range archives {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := decode.File("f.yaml", data)
		findings := r.Findings
		for _, o := range r.Objects {
			findings = append(findings, admission.Validate(o)...)
		}
		for _, finding := range append(findings, admission.Check(r.Objects, mesh.Default())...) {
			if finding.Message == "" || finding.Fix == "" {
				t.Fatalf("half a finding: %#v", finding)
			}
		}
	})
}

// FuzzHeaderValue: what follows a value that has ended changes nothing of it, and a lone "%" is never taken.
func FuzzHeaderValue(f *testing.F) {
	for _, s := range []string{"", "100%%", "%REQ(a)%", `%M(["a", "b\"]"])% x`, "%START_TIME%%", "%(", `%a([])%`, `%a("\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		whole := admission.Formats(s)
		if whole && (!admission.Formats(s+" x") || !admission.Formats(s+"%%") || admission.Formats(s+"%")) {
			t.Fatalf("%q", s)
		}
	})
}

// FuzzNormalPath: the normal form of a path that begins with "/" is in normal form, and holds nothing that is not.
func FuzzNormalPath(f *testing.F) {
	for _, s := range []string{"/", "/a/..;x/b", "/%2e%2E/", "/a%2f..%5c/;", `/\a/./**/../`, "/.;a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "%") && !regexp.MustCompile(`^(?:[^%]|%[013-9A-Fa-f][0-9A-Fa-f]|%2[0-46-9A-Fa-f])*$`).MatchString(s) {
			return // refused before its normal form is asked for
		}
		n := admission.NormalPath("/" + s)
		if admission.NormalPath(n) != n || !strings.HasPrefix(n, "/") {
			t.Fatalf("%q, of it %q", n, admission.NormalPath(n))
		}
		for _, bad := range []string{"//", "/./", "/../", "%2e", "%2f", "%5c", `\`, ";"} {
			if strings.Contains(strings.ToLower(n), bad) || strings.HasSuffix(n, "/.") || strings.HasSuffix(n, "/..") {
				t.Fatalf("%q holds %q", n, bad)
			}
		}
	})
}
