package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expected answers in testdata")

// golden holds what a command prints, and its exit code, against a file.
func golden(t *testing.T, name, args string, code int) {
	t.Helper()
	out, _, got, err := call(t, strings.Fields(args)...)
	text := fmt.Sprintf("$ sallyport %s\n%s", args, out)
	if got != code {
		t.Errorf("%s: exit %d (%v), want %d", args, got, err, code)
	}
	path := filepath.Join("testdata", "policies", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", args, diff)
	}
}

// TestExplainPolicies: the rules that were asked are said, and what to write.
func TestExplainPolicies(t *testing.T) {
	const at = " --at 2030-01-01T00:00:00Z "
	const checkout = "explain --config-dir testdata/policies/mesh --from shop/c?app=checkout" + at
	for _, tt := range []struct {
		name, args string
		code       int
	}{
		{"explain-allowed", checkout + "--method POST http://api.payments.test/v1/charges", exitDone},
		{"explain-denied", checkout + "http://api.payments.test/v1/charges", exitNo},
		{"explain-path", checkout + `--method POST --path /v1\charges http://api.payments.test/v1/charges`, exitNo},
		{"explain-root", checkout + "-o json https://paste.test", exitNo},
		{"explain-ended", "explain --config-dir testdata/policies/mesh --identity spiffe://cluster.local/ns/shop/sa/checkout --at 2030-07-01T00:00:00Z https://api.payments.test", exitDone},
		{"explain-observed", "explain --config-dir testdata/policies/mesh --identity shop/web" + at + "-o json https://api.payments.test", exitDone},
		{"explain-up", "explain --up testdata/policies/mesh --at 2030-01-01T00:00:00Z https://paste.test", exitNo},
	} {
		t.Run(tt.name, func(t *testing.T) { golden(t, tt.name, tt.args, tt.code) })
	}
	for args, want := range map[string]string{
		"--identity shop https://a.test":                       "--identity",
		"--identity spiffe://x/y https://a.test":               "--identity",
		"--identity shop/a --service-account b https://a.test": "give one of them",
		"--identity shop/a --from other/x https://a.test":      "in namespace other",
		"--from shop/a --at tomorrow https://a.test":           "--at",
		"--from shop/a --method POST https://a.test":           "http://",
		"--from shop/a --header x http://a.test":               "NAME=VALUE",
		"--from shop/a --path / https://a.test":                "http://",
		"--from shop/a --path x http://a.test":                 "must begin with /",
	} {
		_, _, code, err := call(t, strings.Fields("explain --config-dir testdata/policies/mesh "+args)...)
		if code != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d, %v", args, code, err)
		}
	}
}
