package admission_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/sallyport/sallyport/config/mesh"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestReference holds that what the reference shows is taken as it is written, without a word.
func TestReference(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference-egresspolicy.md")
	if err != nil {
		t.Fatal(err)
	}
	var objects, settings int
	for _, block := range yamlBlock.FindAllSubmatch(page, -1) {
		if regexp.MustCompile(`(?m)^kind: `).Match(block[1]) {
			objects++
			files := []txtar.File{{Name: "reference.yaml", Data: block[1]}}
			if !strings.Contains(string(block[1]), "kind: ServiceEntry") {
				files = append(files, txtar.File{Name: "registered.yaml", Data: []byte(registered)})
			}
			if said := lint(t, files); said != "" {
				t.Errorf("%s\n%s", block[1], said)
			}
		} else {
			settings++
			if _, err := mesh.Parse(block[1]); err != nil {
				t.Errorf("%s\n%v", block[1], err)
			}
		}
	}
	if objects < 3 || settings < 1 {
		t.Errorf("%d blocks with objects and %d with settings are found", objects, settings)
	}
}

// registered is what the page takes for registered, where it does not show it.
const registered = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: others, namespace: istio-system}
spec:
  hosts: [api.stripe.com, time.example.com, "*.pastebin.com"]
  location: MESH_EXTERNAL
  resolution: NONE
  ports: [{number: 443, name: tls, protocol: TLS}]
`
