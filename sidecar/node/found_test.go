package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sallyport/sallyport/xds/ambient"
)

const args = `"cniArgs": [["IgnoreUnknown", "1"], ["K8S_POD_NAMESPACE", "shop"], ["K8S_POD_NAME", "cart-0"], ["K8S_POD_UID", "u1"]]`

// TestFound: a pod is known by what plugins were called with; what names no pod, or no network, is none.
func TestFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"net-1-eth0":  `{` + args + `, "netns": "/run/netns/a"}`,
		"loop-1-lo":   `{` + args + `, "result": {"interfaces": [{"name": "veth0"}, {"name": "lo", "sandbox": "/run/netns/a"}]}}`,
		"no-network":  `{` + args + `}`,
		"no-pod":      `{"netns": "/run/netns/b"}`,
		"a-path":      `{"cniArgs": [["K8S_POD_NAMESPACE", "shop"], ["K8S_POD_NAME", "../x"]], "netns": "/run/netns/c"}`,
		"broken":      `{"netns": `,
		"net-2-eth0":  `{"cniArgs": [["K8S_POD_NAMESPACE", "shop"], ["K8S_POD_NAME", "cart-1"]], "netns": "/run/netns/d"}`,
		"other-shape": `{"cniArgs": {"a": "b"}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := map[Local]bool{}
	for _, l := range found(dir) {
		got[l] = true
	}
	first := Local{Namespace: "shop", Name: "cart-0", UID: "u1", Network: "/run/netns/a"}
	if !got[first] || !got[Local{Namespace: "shop", Name: "cart-1", Network: "/run/netns/d"}] || len(got) != 2 {
		t.Errorf("found %v", got)
	}
	if list := found(filepath.Join(dir, "nowhere")); list != nil {
		t.Errorf("in no folder: %v", list)
	}
	if is(first, ambient.Pod{UID: "u2"}) || !is(first, ambient.Pod{UID: "u1"}) || !is(first, ambient.Pod{}) {
		t.Error("a pod of the same name is taken for another one, or not for itself")
	}
}
