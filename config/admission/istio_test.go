package admission_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
)

// cases are specs of one kind, by what Istio's own validation says of them.
type cases struct {
	APIVersion string
	// Accept and Refuse are what both take, and what neither does.
	Accept, Refuse []json.RawMessage
	// Stricter are what Istio takes and is refused here, and Looser the other way round: ADR 14 says why.
	Stricter, Looser []json.RawMessage
	// Converted are taken of objects that Istio made of the Gateway API's, and of others not.
	Converted []json.RawMessage
}

// TestIstio holds the verdicts to those of Istio's validation (pkg/config/validation), rule by rule.
func TestIstio(t *testing.T) {
	files, err := filepath.Glob("testdata/istio/*.yaml")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	agree, differ := 0, 0
	for _, file := range files {
		kind := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(kind, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c cases
			if err := yaml.UnmarshalStrict(data, &c); err != nil {
				t.Fatal(err)
			}
			try := func(list []json.RawMessage, annotations string, refused bool) {
				for _, spec := range list {
					if errors := judged(kind, c.APIVersion, annotations, spec); (len(errors) > 0) != refused {
						t.Errorf("%s: refused: %v, want %v\n%v", spec, len(errors) > 0, refused, errors)
					}
				}
			}
			try(c.Accept, "", false)
			try(c.Refuse, "", true)
			try(c.Stricter, "", true)
			try(c.Looser, "", false)
			try(c.Converted, "", true)
			try(c.Converted, `"internal.istio.io/gateway-semantics": "gateway", "internal.istio.io/route-semantics": "gateway"`, false)
			agree += len(c.Accept) + len(c.Refuse) + 2*len(c.Converted)
			differ += len(c.Stricter) + len(c.Looser)
		})
	}
	t.Logf("%d cases as Istio, %d differ", agree, differ)
}

// judged gives the errors about an object of that spec.
func judged(kind, apiVersion, annotations string, spec json.RawMessage) (errors []admission.Finding) {
	object := `{"apiVersion": "` + apiVersion + `", "kind": "` + kind + `", "metadata": {"name": "a", "namespace": "ns", "annotations": {` + annotations + `}}, "spec": ` + string(spec) + `}`
	r := decode.File("a.json", []byte(object))
	findings := r.Findings
	for _, o := range r.Objects {
		findings = append(findings, admission.Validate(o)...)
	}
	for _, f := range findings {
		if f.Severity == admission.Error {
			errors = append(errors, f)
		}
	}
	return errors
}
