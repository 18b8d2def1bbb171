package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPolicy: each question in each format.
func TestPolicy(t *testing.T) {
	const mesh = " --config-dir testdata/policies/mesh --at 2030-01-01T00:00:00Z -o "
	for name, args := range map[string]string{
		"list":     "policy list",
		"who-can":  "policy who-can api.payments.test",
		"what-can": "policy what-can shop/checkout-1",
	} {
		for _, format := range []string{"table", "json", "csv", "svg"} {
			t.Run(name+"."+format, func(t *testing.T) { golden(t, name+"-"+format, args+mesh+format, exitDone) })
		}
	}
	golden(t, "who-can-port", "policy who-can a.wild.test --port 8443"+mesh+"table", exitDone)
	golden(t, "what-can-account", "policy what-can shop/new --service-account checkout"+mesh+"table", exitDone)
	for args, want := range map[string]string{
		"list":                                        "where is the configuration?",
		"list x":                                      "unexpected argument",
		"list --config-dir testdata -o yaml":          "table, json, csv or svg",
		"list --config-dir testdata --at x":           "--at",
		"who-can --config-dir testdata":               "takes one HOST",
		"who-can --config-dir testdata *":             "name the hosts",
		"who-can --config-dir testdata a_b%":          "",
		"who-can --config-dir testdata --limit 0 a.b": "--limit",
		"what-can --config-dir testdata shop":         "must be NAMESPACE/WORKLOAD",
	} {
		_, _, code, err := call(t, append([]string{"policy"}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: exit %d, %v", args, code, err)
		}
	}
	if _, _, code, err := call(t, "policy", "who-can", "", "--config-dir", "testdata"); code != exitUsage || !strings.Contains(err.Error(), "this one is empty") {
		t.Errorf("no host: exit %d, %v", code, err)
	}
	_, errs, code, _ := call(t, "policy", "who-can", "api.payments.test", "--config-dir", "testdata/policies/mesh", "--limit", "3")
	if code != exitDone || !strings.Contains(errs, "3 more are left out; --limit 6") {
		t.Errorf("with a limit: %d, %s", code, errs)
	}
}

// TestPolicySVG: the drawing is well-formed, and what others wrote is text in it.
func TestPolicySVG(t *testing.T) {
	dir := t.TempDir()
	object := `{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}, spec: {serviceAccountName: "<script>&"}}`
	if err := os.WriteFile(filepath.Join(dir, "pod.yaml"), []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, _, err := call(t, "policy", "who-can", "a.test", "--config-dir", dir, "-o", "svg")
	if err != nil || strings.Contains(out, "<script") || !strings.Contains(out, "&lt;script&gt;") {
		t.Errorf("%v\n%s", err, out)
	}
	d := xml.NewDecoder(strings.NewReader(out))
	for err == nil {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("%v\n%s", err, out)
	}
}
