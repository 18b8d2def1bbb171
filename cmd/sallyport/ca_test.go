package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/kubeca"
)

func runCA(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, progress bytes.Buffer
	c := caCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetFlagErrorFunc(rootCommand().FlagErrorFunc())
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&progress)
	err = c.ExecuteContext(t.Context())
	return out.String(), progress.String(), err
}

func rotateByCommand(t *testing.T, where ...string) {
	t.Helper()
	call := func(args ...string) (string, string, error) {
		return runCA(t, append(append([]string{}, args...), where...)...)
	}
	shows := func(want ...string) {
		t.Helper()
		out, _, err := call("status")
		for _, w := range want {
			if err != nil || !strings.Contains(out, w) {
				t.Errorf("status does not show %q: %v\n%s", w, err, out)
			}
		}
	}
	shows("signs", "No rotation is under way")
	out, _, err := call("rotate")
	if err != nil || !strings.Contains(out, "next") || !strings.Contains(out, `"sign", may follow from`) {
		t.Fatalf("rotate: %v\n%s", err, out)
	}
	out, progress, err := call("rotate")
	if exitCode(err) != exitNo || out != "" || !strings.Contains(progress, "too early") || !strings.Contains(progress, "14h29m") {
		t.Errorf("rotate too early: %v, %q, %q", err, out, progress)
	}
	if out, _, err = call("rotate", "--abandon"); err != nil || strings.Contains(out, "next") {
		t.Errorf("abandon: %v\n%s", err, out)
	}
	for range 2 {
		if _, _, err = call("rotate", "--force"); err != nil {
			t.Fatal(err)
		}
	}
	shows("signs", "old", `"drop", may follow from`)
	if out, _, err = call("rotate", "--force", "-o", "json"); err != nil {
		t.Fatal(err)
	}
	var s ca.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil || len(s.Roots) != 1 || s.NextStep != ca.StepTrust || s.LastStep != "" {
		t.Errorf("at the end: %+v, %v", s, err)
	}
}

func TestCAInAFolder(t *testing.T) {
	data := t.TempDir()
	if _, _, err := runCA(t, "status", "--data", data); exitCode(err) != exitFailed || !strings.Contains(err.Error(), "no CA yet") {
		t.Errorf("without a CA: %v", err)
	}
	authority, err := ca.Open(ca.Options{DataDir: data})
	if err != nil {
		t.Fatal(err)
	}
	before := authority.Bundle()[0]
	rotateByCommand(t, "--data", data)
	if _, err := authority.Reload(); err != nil || len(authority.Bundle()) != 1 || authority.Bundle()[0].Equal(before) {
		t.Errorf("a controller follows: %d roots, %v", len(authority.Bundle()), err)
	}
}

func TestCAInKubernetes(t *testing.T) {
	server := apiserver.StartWith(t, apiserver.Options{WithoutCRDs: true})
	client, err := kubernetes.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ca.OpenContext(t.Context(), ca.Options{Store: kubeca.NewStore(client.CoreV1(), "default")})
	if err != nil {
		t.Fatal(err)
	}
	rotateByCommand(t, "--kubeconfig", server.Kubeconfig, "--system-namespace", "default")
}

func TestCAUsage(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	data := t.TempDir()
	for name, args := range map[string][]string{
		"nowhere":            {"status"},
		"two places":         {"status", "--data", data, "--kubeconfig", "x"},
		"an output":          {"status", "--data", data, "-o", "yaml"},
		"a short lifetime":   {"rotate", "--data", data, "--cert-ttl", "1s"},
		"an argument":        {"rotate", "--data", data, "now"},
		"force and abandon":  {"rotate", "--data", data, "--force", "--abandon"},
		"an unknown flag":    {"rotate", "--date", data},
		"a nameless cluster": {"status", "--kubeconfig", "x", "--system-namespace", ""},
		"a missing file":     {"status", "--kubeconfig", data + "/missing"},
	} {
		if _, _, err := runCA(t, args...); exitCode(err) != exitUsage {
			t.Errorf("%s: %v, exit code %d, want %d", name, err, exitCode(err), exitUsage)
		}
	}
}
