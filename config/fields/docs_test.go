package fields

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

var update = flag.Bool("update", false, "rewrite docs/fields.md")

const page = "../../docs/fields.md"

const head = `# What becomes of each field

Nothing that is accepted is left out in silence. Of every field of the API that is set, one of these holds:

- **applied**: it does what the API says.
- **idle**: it asks proxies for nothing: a name, a word for people.
- **warned**: the object is accepted, the field is not applied, and lint, the webhook and the object's status say so.
  Nothing is less closed, checked or encrypted for it.
- **refused**: the field is not applied, and to ignore it would allow, or expose, what was wanted otherwise. The object is
  refused, and its last good version stays.

A field that is not listed has the fate of the one above it: "subsets" stands for all that is in it. Where a field is
listed twice, the first line is about some of its values.

This page is written from the tables in ` + "`config/fields`" + ` by ` + "`go test ./config/fields -update`" + `, and a test holds them to
the API's own descriptors. Which values Istio and Sallyport accept alike is in
[ADR 14](adr/0014-accepted-is-applied-or-said.md).
`

// TestDocs keeps docs/fields.md what the tables say.
func TestDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString(head)
	for _, k := range all() {
		writeTable(&b, k.Name, k.API, k.Fields)
	}
	writeTable(&b, "sallyport", "our block of the mesh settings", Sallyport)
	writeTable(&b, "Service", "v1, its spec", Service)
	b.WriteString(tail)
	want := b.String()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("docs/fields.md is not what the tables say (%v): go test ./config/fields -update", err)
	}
}

func writeTable(b *strings.Builder, name, api string, lines []Field) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| field | | |\n|---|---|---|\n", name, api)
	for _, f := range lines {
		path := "`" + f.Path + "`"
		if f.Path == "" {
			path = "*the object*"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", path, f.Fate, said(f))
	}
}

// tail is about what has no table.
const tail = `
## What is not read

Kinds of the Gateway API (gateway.networking.k8s.io) are not in these tables: what of them is not done closes what it is about, with the API's own
reason in the status, and lint says so ([ADR 45](adr/0045-the-gateway-api-on-the-same-model.md)). Of EndpointSlices and Pods, what says where a Service's endpoints are and who they are is applied; of
Namespaces, the annotation and the labels that this documentation names.
`

// TestService holds the table of Services to Kubernetes' own type.
func TestService(t *testing.T) {
	want := map[string]bool{}
	for i := range reflect.TypeFor[corev1.ServiceSpec]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[corev1.ServiceSpec]().Field(i).Tag.Get("json"), ",")
		want[name] = true
	}
	for _, f := range Service {
		if !want[f.Path] {
			t.Errorf("%s: there is no such field, or it is there twice", f.Path)
		}
		delete(want, f.Path)
	}
	for name := range want {
		t.Errorf("%s: no line of the table says what becomes of it", name)
	}
}

func said(f Field) string {
	text := f.Why
	if f.When != nil {
		text = "with some values: " + text
	}
	if f.Fix != "" {
		text += "; " + f.Fix
	}
	return strings.ReplaceAll(text, "|", "\\|")
}
