package main

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/xds/identity/ca"
)

const machineGroup = `apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: db, namespace: shop}
spec:
  metadata: {labels: {app: db}}
  template: {serviceAccount: db, network: site}
`

func runMachineFiles(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := machineFilesCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	c.SetOut(&out)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// TestMachineFiles: a shell reads the environment, the token is for nobody else, and the roots are the controller's.
func TestMachineFiles(t *testing.T) {
	dir := t.TempDir()
	data, file, out := filepath.Join(dir, "data"), filepath.Join(dir, "group.yaml"), filepath.Join(dir, "out")
	if err := os.WriteFile(file, []byte(machineGroup), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-f", file, "-o", out, "--controller", "controller.example:15012", "--data", data}
	if _, err := runMachineFiles(t, args...); err == nil || !strings.Contains(err.Error(), "start the controller once") {
		t.Fatalf("without a controller: %v", err)
	}
	if err := errors.Join(os.Mkdir(out, 0o755), os.WriteFile(filepath.Join(out, "istio-token"), []byte("old"), 0o644)); err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(filepath.Join(out, "istio-token")) // who reads it before it has a mode
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	if _, err := ca.Open(ca.Options{DataDir: data, TrustDomain: "cluster.local"}); err != nil {
		t.Fatal(err)
	}
	printed, err := runMachineFiles(t, args...)
	if err != nil || !strings.Contains(printed, "WorkloadGroup shop/db") {
		t.Fatalf("%q, %v", printed, err)
	}
	said, err := exec.Command("sh", "-c", `set -a; . "$0"; env`, filepath.Join(out, "cluster.env")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"POD_NAMESPACE=shop", "SERVICE_ACCOUNT=db", "DISCOVERY_ADDRESS=controller.example:15012", "ISTIO_META_AUTO_REGISTER_GROUP=db", "ISTIO_META_NETWORK=site",
		`ISTIO_METAJSON_LABELS={"app":"db"}`, "TRUST_DOMAIN=cluster.local",
	} {
		if !strings.Contains("\n"+string(said), "\n"+want+"\n") {
			t.Errorf("the environment has no %s:\n%s", want, said)
		}
	}
	if about, err := os.Stat(filepath.Join(out, "istio-token")); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v", about, err)
	}
	if text, err := io.ReadAll(old); err != nil || string(text) != "old" {
		t.Errorf("who had the old file open reads the token (%v)", err)
	}
	roots, err := os.ReadFile(filepath.Join(out, "root-cert.pem"))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(roots) {
		t.Errorf("the roots: %v", err)
	}
}

func TestMachineFilesMistakes(t *testing.T) {
	dir := t.TempDir()
	two := filepath.Join(dir, "two.yaml")
	if err := os.WriteFile(two, []byte(machineGroup+"---\n"+strings.Replace(machineGroup, "name: db", "name: web", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"are required":        {"-f", two},
		"whose token":         {"-f", two, "-o", dir, "--controller", "c:1"},
		"--group":             {"-f", two, "-o", dir, "--controller", "c:1", "--data", dir},
		"no such file":        {"-f", filepath.Join(dir, "none"), "-o", dir, "--controller", "c:1", "--data", dir},
		"has 0 WorkloadGroup": {"-f", two, "--group", "shop/none", "-o", dir, "--controller", "c:1", "--data", dir},
	} {
		if _, err := runMachineFiles(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
