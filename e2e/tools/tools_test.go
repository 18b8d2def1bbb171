package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
	for _, script := range []string{"packages", "envoy", "axe", "kubernetes", "coredns", "helm", "versitygw", "istioecho", "ocsf", "spark", "iceberg", "icebergspark", "kafka", "golangci-lint", "lib.sh", "failures", "meanwhile", "skew"} {
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

func TestFailuresAreSaidOnceMore(t *testing.T) {
	cmd := exec.Command("./failures")
	cmd.Stdin = strings.NewReader(`=== RUN   TestRelease
    a_test.go:1: ready
=== RUN   TestRelease/registered
    a_test.go:2: reached
=== RUN   TestRelease/gone
    b_test.go:3: it is open
=== NAME  TestRelease
    a_test.go:4: a long log
        of a pod
--- FAIL: TestRelease (2.00s)
    --- PASS: TestRelease/registered (1.00s)
    --- FAIL: TestRelease/gone (1.00s)
FAIL
FAIL	example.test/incluster	2.0s
ok  	example.test/fine	1.0s
--- FAIL: TestPlain (0.10s)
    c_test.go:5: it is closed
FAIL	example.test/plain	0.2s
`)
	out, err := cmd.CombinedOutput()
	want := `failed: TestRelease
    a_test.go:1: ready
    a_test.go:4: a long log
failed: TestRelease/gone
    b_test.go:3: it is open
failed: TestPlain
    c_test.go:5: it is closed
FAIL	example.test/incluster	2.0s
FAIL	example.test/plain	0.2s
`
	if err != nil || string(out) != want {
		t.Errorf("%v: said\n%swant\n%s", err, out, want)
	}
}

// What waits runs beside each other: each of the two goes on only when the other is there. What fails ends nothing else.
func TestMeanwhile(t *testing.T) {
	script, err := filepath.Abs("meanwhile")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, first, second, computing string
		fails                          bool
	}{
		{name: "all succeed", first: "true", second: "true", computing: "true"},
		{name: "the first fails", first: "false", second: "true", computing: "true", fails: true},
		{name: "the second fails", first: "true", second: "false", computing: "true", fails: true},
		{name: "what computes fails", first: "true", second: "true", computing: "false", fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			for _, name := range []string{"to", "fro"} {
				if err := syscall.Mkfifo(filepath.Join(folder, name), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(script, "echo computed; "+test.computing,
				"echo go >to; read -r <fro; echo first; "+test.first, "read -r <to; echo go >fro; echo second; "+test.second)
			cmd.Dir = folder
			out, err := cmd.CombinedOutput()
			if (err != nil) != test.fails {
				t.Errorf("error: %v", err)
			}
			if want := "first\nsecond\ncomputed\n"; string(out) != want {
				t.Errorf("said %q, want %q", out, want)
			}
		})
	}
}
