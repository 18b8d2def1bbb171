package admission_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
)

// TestNamesAreShown: what files and objects are called reaches terminals as text: no name moves a cursor, or turns a line.
func TestNamesAreShown(t *testing.T) {
	r := decode.File("a\x1b[31m\u202e.yaml", []byte("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: \"x\\e[2J\\u202e\", namespace: \"n\\rs\", annotations: {\"egress.sallyport.io/\\e[1m\": x}}\nspec: {hosts: [a.com], \"h\\e[1m\": 1}\n"))
	findings := r.Findings
	for _, o := range append(r.Objects, config.Object{Key: config.Key{Kind: config.KindServiceEntry, Namespace: "n\rs", Name: "x\x1b"}, Annotations: map[string]string{"egress.sallyport.io/\x1b[1m": "x"}}) {
		findings = append(findings, admission.Validate(o)...)
	}
	if len(findings) < 3 {
		t.Fatal(findings)
	}
	for _, f := range findings {
		for _, text := range []string{f.String(), f.Where(), f.What()} {
			if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q", text)
			}
		}
	}
}
