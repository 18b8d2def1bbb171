package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const explained = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: external, namespace: default}
spec:
  hosts: [external.com]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 80, name: http, protocol: HTTP}
  - {number: 443, name: https, protocol: HTTPS}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: narrow, namespace: default}
spec:
  workloadSelector: {labels: {app: narrow}}
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress: [{hosts: ["istio-system/*"]}]
`

func TestExplain(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"mesh/e.yaml": explained, "broken/e.yaml": explained, "broken/b.yaml": "a: [", "only.yaml": "outboundTrafficPolicy: {mode: REGISTRY_ONLY}", "wrong.yaml": "rootNamspace: x",
		"empty/notes.txt": "",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args string
		code int
		want string // in stdout, or in the error
	}{
		{"--config-dir mesh --from default/app https://external.com", exitDone, "verdict    allow\npath       gateway\n"},
		{"--config-dir mesh --from default/app https://external.com", exitDone, "decided by ServiceEntry default/external (hosts: external.com)\n"},
		{"--config-dir mesh --from default/app https://external.com", exitDone, "gateway    istio-system/istio-egressgateway\n"},
		{"--config-dir mesh --from default/app http://external.com:443", exitNo, "verdict    deny\n"},
		{"--config-dir mesh --from default/app https://other.com", exitDone, "path       passthrough\n"},
		{"--config-dir mesh --from default/app?app=narrow https://external.com", exitNo, "Sidecar default/narrow"},
		{"--config-dir mesh --mesh-config only.yaml --from default/app https://other.com", exitNo, "To register it:\n\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"},
		{"--config-dir empty --from default/app https://other.com", exitDone, "nobody registered the host"},
		{"--config-dir broken --from default/app https://external.com", exitDone, "verdict    allow\n"},
		{"--from default/app https://external.com", exitUsage, "--config-dir"},
		{"--up mesh https://external.com", exitDone, "verdict    allow\npath       gateway\ncluster    outbound|443||external.com\n"},
		{"--up mesh --from team/x http://external.com", exitDone, "leaves by the forward proxy"},
		{"--up mesh --from default/app?app=narrow https://external.com", exitDone, "verdict    allow\n"},
		{"--up mesh https://other.com", exitNo, "up lets out only what is registered"},
		{"--up mesh https://other.com", exitNo, "To register it:"},
		{"--up mesh https://203.0.113.7", exitNo, "up is asked for names"},
		{"--up mesh tcp://external.com:443", exitNo, "registered as TLS"},
		{"--up mesh -o json https://other.com", exitNo, `"verdict": "deny"`},
		{"--up mesh --from app https://external.com", exitUsage, "must be NAMESPACE/WORKLOAD"},
		{"--up none https://external.com", exitUsage, `--up "none": there is no such directory`},
		{"--up mesh --config-dir mesh https://external.com", exitUsage, "give one of them"},
		{"--data mesh https://external.com", exitFailed, "no sallyport up or controller runs with this folder"},
		{"--data mesh --mesh-config only.yaml https://external.com", exitUsage, "settings of its own"},
		{"--data none https://external.com", exitUsage, "no such directory"},
		{"--config-dir none --from default/app https://external.com", exitUsage, `"none": there is no such directory`},
		{"--config-dir mesh https://external.com", exitUsage, "must be NAMESPACE/WORKLOAD"},
		{"--config-dir mesh --from app https://external.com", exitUsage, "must be NAMESPACE/WORKLOAD"},
		{"--config-dir mesh --from default/app?%zz https://external.com", exitUsage, "labels"},
		{"--config-dir mesh --from default/app", exitUsage, "takes one URL"},
		{"--config-dir mesh --from default/app a b", exitUsage, "got 2 arguments"},
		{"--config-dir mesh --from default/app external.com", exitUsage, "none of http, https, tls, tcp"},
		{"--config-dir mesh --from default/app -o yaml https://external.com", exitUsage, "must be text or json"},
		{"--config-dir mesh --mesh-config wrong.yaml --from default/app https://external.com", exitUsage, "rootNamespace"},
		{"--config-dir mesh --colour https://external.com", exitUsage, "--colour"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			out, errs, code, err := call(t, append([]string{"explain"}, strings.Fields(tt.args)...)...)
			text := out
			if code >= exitUsage {
				text = err.Error()
			}
			if code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("exit %d (%v), want %d and %q in:\n%s%s", code, err, tt.code, tt.want, out, errs)
			}
		})
	}
	_, errs, _, _ := call(t, "explain", "--config-dir", "broken", "--from", "default/app", "https://external.com")
	if !strings.Contains(errs, "b.yaml") {
		t.Errorf("what is wrong in the directory is not said: %q", errs)
	}
}

// TestExplainJSON: scripts read these fields.
func TestExplainJSON(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "e.yaml"), []byte(explained), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, code, _ := call(t, "explain", "--config-dir", dir, "--from", "default/app", "-o", "json", "https://external.com")
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitDone {
		t.Fatalf("%d, %v: %s", code, err, out)
	}
	by, _ := got["decidedBy"].(map[string]any)
	for field, want := range map[string]any{
		"verdict": "allow", "path": "gateway", "cluster": "outbound|443||istio-egressgateway.istio-system.svc.cluster.local",
		"gateway": "istio-system/istio-egressgateway", "suggestion": "",
	} {
		if got[field] != want {
			t.Errorf("%s: %v, want %v", field, got[field], want)
		}
	}
	if by["kind"] != "ServiceEntry" || by["namespace"] != "default" || by["name"] != "external" || by["rule"] != "hosts: external.com" || got["reason"] == "" {
		t.Errorf("%s", out)
	}
	out, _, code, _ = call(t, "explain", "--config-dir", dir, "--from", "default/app?app=narrow", "-o", "json", "https://external.com")
	if code != exitNo || !strings.Contains(out, `"verdict": "deny"`) {
		t.Errorf("%d %s", code, out)
	}
}
