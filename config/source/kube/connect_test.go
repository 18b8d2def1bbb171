package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConnect(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	file := filepath.Join(t.TempDir(), "config")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"apiVersion":"v1","kind":"Config","current-context":"one","clusters":[{"name":"c","cluster":{"server":"https://one:6443"}},{"name":"d","cluster":{"server":"https://two:6443"}}],
		"contexts":[{"name":"one","context":{"cluster":"c"}},{"name":"two","context":{"cluster":"d"}}]}`)
	for context, host := range map[string]string{"": "https://one:6443", "two": "https://two:6443"} {
		c, err := Connect(file, context)
		if err != nil || c.Host != host || c.QPS <= 0 || c.Burst <= 0 || !strings.HasPrefix(c.UserAgent, "sallyport/") {
			t.Errorf("context %q: %v, %+v", context, err, c)
		}
	}
	for _, c := range [][3]string{
		{file, "three", `there is no context "three"`},
		{file + "x", "", "no such file"},
		{"", "", "name a file with --kubeconfig"},
		{"", "two", "there is no kubeconfig file to find it in"},
	} {
		if _, err := Connect(c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("Connect(%q, %q): %v", c[0], c[1], err)
		}
	}
	write("{}")
	if _, err := Connect(file, ""); err == nil || !strings.Contains(err.Error(), "names no cluster") {
		t.Errorf("an empty file: %v", err)
	}
	write("no: [yaml")
	if _, err := Connect(file, ""); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("not YAML: %v", err)
	}
}
