package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/xds/identity/token"
)

func runToken(args ...string) (string, error) {
	var out bytes.Buffer
	c := tokenCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	c.SetOut(&out)
	err := c.Execute()
	return out.String(), err
}

// What is printed is accepted by a controller that starts afterwards on the same folder.
func TestTokenIsAcceptedByTheController(t *testing.T) {
	data := t.TempDir() + "/not/there/yet"
	printed, err := runToken("--data", data, "shop/checkout")
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := runToken("--data", data, "shop/checkout", "--ttl", "1h", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Token   string
		Expires time.Time
	}
	if err := json.Unmarshal([]byte(asJSON), &answer); err != nil {
		t.Fatal(err)
	}
	if in := time.Until(answer.Expires); in < 58*time.Minute || in > time.Hour {
		t.Errorf("expires in %s, want about 1h", in)
	}
	key, err := token.OpenKey(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{strings.TrimSpace(printed), answer.Token} {
		id, err := token.NewVerifier(key, "cluster.local", nil).Verify(raw)
		if err != nil || id.String() != "spiffe://cluster.local/ns/shop/sa/checkout" {
			t.Errorf("Verify = %s, %v", id, err)
		}
	}
}

func TestTokenUsage(t *testing.T) {
	data := t.TempDir()
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"no argument", "NAMESPACE/SERVICEACCOUNT", []string{"--data", data}},
		{"two arguments", "got 2", []string{"--data", data, "a/b", "c/d"}},
		{"no slash", `"checkout"`, []string{"--data", data, "checkout"}},
		{"two slashes", `"a/b/c"`, []string{"--data", data, "a/b/c"}},
		{"empty namespace", `"/b"`, []string{"--data", data, "/b"}},
		{"upper case", `"Shop"`, []string{"--data", data, "Shop/checkout"}},
		{"dots in the namespace", `"a.b"`, []string{"--data", data, "a.b/checkout"}},
		{"colon", `"b:c"`, []string{"--data", data, "a/b:c"}},
		{"no data folder", "--data", []string{"a/b"}},
		{"zero lifetime", "--ttl 0s", []string{"--data", data, "a/b", "--ttl", "0s"}},
		{"negative lifetime", "--ttl -1h", []string{"--data", data, "a/b", "--ttl=-1h"}},
		{"not a duration", "soon", []string{"--data", data, "a/b", "--ttl", "soon"}},
		{"unknown format", `"yaml"`, []string{"--data", data, "a/b", "-o", "yaml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := runToken(c.args...)
			var usage program.UsageError
			if !errors.As(err, &usage) {
				t.Fatalf("error %v, want a UsageError", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not name %s", err, c.want)
			}
			if out != "" {
				t.Errorf("printed %q", out)
			}
		})
	}
}
