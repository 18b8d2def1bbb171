package decode

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
)

func stamped(t *testing.T, yaml string) config.Object {
	t.Helper()
	r := File("r.yaml", []byte(yaml))
	if len(r.Objects) != 1 {
		t.Fatalf("%d objects, %v", len(r.Objects), r.Findings)
	}
	return r.Objects[0]
}

const revised = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: shop, labels: {team: a}, annotations: {note: one, egress.sallyport.io/gateway: direct}, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {hosts: [e.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
`

// TestRevision: it changes with what the object says, and with nothing else.
func TestRevision(t *testing.T) {
	was := stamped(t, revised)
	if len(was.Revision) != 2*revisionBytes || was.Hash == 0 {
		t.Fatalf("revision %q, hash %x", was.Revision, was.Hash)
	}
	for _, tt := range []struct {
		name, old, new string
		same           bool
	}{
		{"a label", "team: a", "team: b", true},
		{"a note", "note: one", "note: two", true},
		{"made again", "2026-01-01", "2026-02-02", true},
		{"a host", "[e.test]", "[e.test, f.test]", false},
		{"a port", "443", "8443", false},
		{"an annotation that counts", "gateway: direct", "gateway: edge/gw", false},
		{"another name", "name: e,", "name: f,", false},
		{"another namespace", "namespace: shop", "namespace: bank", false},
	} {
		now := stamped(t, strings.Replace(revised, tt.old, tt.new, 1))
		if now.Hash == was.Hash {
			t.Errorf("%s: the object's hash is the same", tt.name)
		}
		if (now.Revision == was.Revision) != tt.same {
			t.Errorf("%s: revision %s became %s", tt.name, was.Revision, now.Revision)
		}
	}
	pod := stamped(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\nspec: {serviceAccountName: a}\n")
	if pod.Revision != "" {
		t.Errorf("a pod has the revision %q", pod.Revision)
	}
}
