package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runInject calls the command and gives its exit code and output.
func runInject(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := injectCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err := cmd.Execute()
	if err != nil {
		errs.WriteString(err.Error())
	}
	return exitCode(err), out.String(), errs.String()
}

func TestInjectCommand(t *testing.T) {
	dir := t.TempDir()
	settings, service := filepath.Join(dir, "injector.yaml"), filepath.Join(dir, "service.yaml")
	const plain = "# a Service\napiVersion: v1\nkind: Service\nmetadata:   {name: web}\n"
	for path, text := range map[string]string{settings: "image: registry.example/proxy:v7\n", service: plain} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web, securityContext: {runAsUser: 1337}}]}\n"
	for _, c := range []struct {
		name, stdin    string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"a pod, by settings", pod, []string{"-f", "-", "--injection-config", settings, "-n", "shop"}, exitDone, "image: registry.example/proxy:v7", "-:1: Pod shop/web: injected"},
		{"a warning", pod, []string{"-f", "-"}, exitDone, "name: istio-proxy", `warning: container "web" runs as user 1337`},
		{"untouched", "", []string{"-f", service}, exitDone, plain, ""},
		{"two files", pod, []string{"-f", service, "-f", "-"}, exitDone, plain + "---\napiVersion: v1\nkind: Pod", ""},
		{"a mistake", strings.Replace(pod, "name: web}", "name: web, annotations: {sidecar.istio.io/logLevel: loud}}", 1), []string{"-f", "-"}, exitNo, "", `"loud": is no log level`},
		{"no file", "", nil, exitUsage, "", "-f FILE"},
		{"an argument", "", []string{"web.yaml"}, exitUsage, "", "-f"},
		{"no such file", "", []string{"-f", filepath.Join(dir, "none")}, exitUsage, "", "no such file"},
		{"no file at all", "", []string{"-f", "/dev/zero"}, exitUsage, "", "it is a device"},
		{"no such settings", "", []string{"-f", service, "--injection-config", filepath.Join(dir, "none")}, exitUsage, "", "no such file"},
		{"wrong settings", "", []string{"-f", service, "--injection-config", service}, exitUsage, "", "unknown field"},
		{"two settings", "", []string{"-f", service, "--injection-config", settings, "--context", "a"}, exitUsage, "", "name one of the two"},
		{"no such kubeconfig", "", []string{"-f", service, "--kubeconfig", filepath.Join(dir, "none")}, exitUsage, "", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := runInject(t, c.stdin, c.args...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) || c.stdout == "" && stdout != "" {
				t.Errorf("exit code %d, stdout:\n%s\nstderr:\n%s", code, stdout, stderr)
			}
		})
	}
}
