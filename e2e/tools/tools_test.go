package tools

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestModulesArePinnedAlike holds the names of folders in the cache to the modules that are built into them.
func TestModulesArePinnedAlike(t *testing.T) {
	for name, module := range map[string]string{"KUBERNETES": "k8s.io/kubernetes", "COREDNS": "github.com/coredns/coredns", "HELM": "helm.sh/helm/v3", "VERSITYGW": "github.com/versity/versitygw"} {
		gomod, err := os.ReadFile("../cluster/tools/" + strings.ToLower(name) + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		if want := module + " v" + Version(name); !strings.Contains(string(gomod), want) {
			t.Errorf("%s_VERSION is %s, but its go.mod does not require %q", name, Version(name), want)
		}
	}
}

func TestScriptsParse(t *testing.T) {
	for _, script := range []string{"packages", "envoy", "axe", "kubernetes", "coredns", "helm", "versitygw", "istioecho", "ocsf", "spark", "iceberg", "icebergspark", "kafka", "golangci-lint", "lib.sh"} {
		if out, err := exec.Command("bash", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
}

func TestCachedSaysWhatToRun(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := Cached("kubernetes", "kubelet"); err == nil || !strings.Contains(err.Error(), "make cluster-tools") {
		t.Errorf("error: %v", err)
	}
}
