package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	lintGood    = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: good}\nspec: {hosts: [good.com], ports: [{number: 443, name: tls, protocol: TLS}], resolution: DNS}\n"
	lintWarn    = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: plain}\nspec: {hosts: [plain.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}\n"
	lintRoutes  = lintGood + "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: routes}\nspec: {hosts: [good.com], http: [{route: [{destination: {host: good.com, port: {number: 80}}}]}], tls: [{match: [{port: 8443, sniHosts: [good.com]}], route: [{destination: {host: good.com}}]}]}\n"
	lintGateway = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: public}\nspec: {gatewayClassName: sallyport, listeners: [{name: http, port: 80, protocol: HTTP, hostname: a.test}]}\n"
	lintLed     = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: led}\nspec: {parentRefs: [{name: public}], hostnames: [b.test], rules: [{backendRefs: [{name: gone, port: 80}]}]}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}\n"
	lintBad     = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: bad}\nspec: {hosts: ['*'], ports: [{number: 0, name: tls, protocol: TLS}], resolution: DNS}\n"
)

func TestLint(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"good.yaml": lintGood, "warn.yaml": lintWarn, "routes.yaml": lintRoutes, "led.yaml": lintLed, "gateway.yaml": lintGateway, "bad.yaml": lintGood + "---\n" + lintBad,
		"dir/a.yaml": lintWarn, "dir/.b.yaml": lintBad, "dir/notes.txt": "a: [", "broken.yaml": "a: [",
		"mesh.yaml": "rootNamespace: x", "wrong.yaml": "rootNamspace: x", "looped/warn.yaml": lintWarn,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("loop.yaml", "looped/loop.yaml"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, stdin string
		code        int
		want        string // in stdout, or in the error when the call is wrong
	}{
		{"good.yaml", "", exitDone, ""},
		{"warn.yaml", "", exitDone, "warn.yaml:1: ServiceEntry default/plain\n  warning: spec.ports[0]: \"80\": requests to plain.com leave the mesh in plain text; add the port"},
		{"--strict warn.yaml", "", exitNo, "warning"},
		{"good.yaml --strict", "", exitDone, ""},
		{"bad.yaml", "", exitNo, "bad.yaml:6: ServiceEntry default/bad\n  error: spec.hosts[0]: \"*\""},
		{"routes.yaml", "", exitDone, "warning: spec.http[0]: it is for requests, which ports of HTTP take, and the hosts have none of these here (443 TLS)"},
		{"routes.yaml", "", exitDone, "warning: spec.http[0].route[0].destination.port.number: \"80\": good.com is not registered with this port, so what is led there gets 503; write one of 443"},
		{"--strict routes.yaml", "", exitNo, "warning: spec.tls[0].match[0].port: \"8443\": none of spec.hosts is registered with this port"},
		{"gateway.yaml", "", exitDone, ""},
		{"led.yaml gateway.yaml", "", exitDone, "led.yaml:1: HTTPRoute default/led\n  warning: spec.hostnames: no listener of the Gateway has any of them; nothing is led by the route there, for spec.parentRefs[0] (Accepted: False, NoMatchingListenerHostname); name hosts that a listener has\n"},
		{"--strict gateway.yaml led.yaml", "", exitNo, "  warning: spec.rules[0].backendRefs[0]: \"gone\": gone.default.svc.cluster.local is no Service that is known; what is led there is answered with 500 (ResolvedRefs: False, BackendNotFound); write"},
		{"dir", "", exitDone, "dir/a.yaml:1: ServiceEntry default/plain\n"},
		{"looped", "", exitNo, "looped/loop.yaml\n  error: cannot be read: too many levels of symbolic links"},
		{"looped", "", exitNo, "looped/warn.yaml:1: ServiceEntry default/plain\n"}, // beside it
		{"looped/loop.yaml", "", exitUsage, "too many levels"},
		{"/dev/zero", "", exitUsage, "it is a device: name a file"},
		{"broken.yaml", "", exitNo, "broken.yaml:1\n  error: not YAML"},
		{"-", lintBad, exitNo, "stdin:1: ServiceEntry default/bad\n"},
		{"--mesh-config mesh.yaml good.yaml", "", exitDone, ""},
		{"--mesh-config wrong.yaml good.yaml", "", exitUsage, `did you mean "rootNamespace"?`},
		{"", "", exitUsage, "got none"},
		{"none.yaml", "", exitUsage, "none.yaml"},
		{"-o xml good.yaml", "", exitUsage, "must be text or json"},
	} {
		t.Run(c.args, func(t *testing.T) {
			cmd := lintCommand()
			var out, errs bytes.Buffer
			cmd.SetArgs(strings.Fields(c.args))
			cmd.SetIn(strings.NewReader(c.stdin))
			cmd.SetOut(&out)
			cmd.SetErr(&errs)
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			err := cmd.Execute()
			if exitCode(err) != c.code {
				t.Errorf("exit code %d (%v), want %d", exitCode(err), err, c.code)
			}
			got := out.String()
			if c.code == exitUsage {
				got = err.Error()
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLintJSON(t *testing.T) {
	cmd := lintCommand()
	var out bytes.Buffer
	cmd.SetArgs([]string{"-o", "json", "-"})
	cmd.SetIn(strings.NewReader(lintBad))
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.Execute(); exitCode(err) != exitNo {
		t.Fatal(err)
	}
	var got struct {
		Objects, Errors, Warnings int
		Findings                  []map[string]string
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Objects != 1 || got.Errors != 2 || got.Findings[0]["name"] != "bad" || got.Findings[0]["field"] != "spec.hosts[0]" || got.Findings[0]["fix"] == "" {
		t.Errorf("%s", out.String())
	}
}
