package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingSeenIsNoAnswer: that nothing would be denied, or is to be suggested, is not said of a time that is to come, and where the log has nothing that is said, too.
func TestNothingSeenIsNoAnswer(t *testing.T) {
	dir, data := t.TempDir(), auditLog(t)
	file := filepath.Join(dir, "policy.yaml")
	text := "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: cart, namespace: shop}\nspec: {serviceAccounts: [cart], default: Deny}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	from := []string{"--config-dir", dir, "--data", data}
	simulate := append([]string{"simulate", "-f", file, "--max-newly-denied", "0"}, from...)
	for _, args := range [][]string{
		append(simulate[:len(simulate):len(simulate)], "--since", "2999-01-01"), append(simulate[:len(simulate):len(simulate)], "--since", "0s"),
		append([]string{"suggest", "--since", "2999-01-01"}, from...), append([]string{"suggest", "--unused", "2999-01-01"}, from...), append([]string{"review", "list", "--since", "2999-01-01"}, from...),
	} {
		out, _, code, err := call(t, args...)
		if code != exitUsage || out != "" || !strings.Contains(err.Error(), "is to come, and nothing was seen since then") {
			t.Errorf("%v: %d, %v, %s", args, code, err, out)
		}
	}
	_, said, code, err := call(t, append(simulate[:len(simulate):len(simulate)], "--from", "shop/nobody")...)
	if code != 0 || !strings.Contains(said, "the log has nothing of what was asked for") {
		t.Errorf("%d, %v: %s", code, err, said)
	}
	if _, said, _, _ := call(t, simulate...); strings.Contains(said, "has nothing") {
		t.Error(said)
	}
}
