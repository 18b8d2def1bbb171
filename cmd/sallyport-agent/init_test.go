package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// runInitWith runs the command as a shell would and returns what it printed and its exit code.
func runInitWith(t *testing.T, args ...string) (stdout string, code int, err error) {
	t.Helper()
	cmd := initCommand()
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), exitCode(err), err
}

func TestInitDryRun(t *testing.T) {
	// As the contract has it.
	args := []string{"-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*", "-x", "", "-b", "*", "-d", "15090,15020"}
	text, code, err := runInitWith(t, append(args, "--dry-run", "--ipv6", "off")...)
	if code != exitDone || strings.Contains(text, "IPv6") {
		t.Fatalf("exit %d, %v:\n%s", code, err, text)
	}
	for _, want := range []string{
		"-A OUTPUT -j ISTIO_OUTPUT\n",
		"-A ISTIO_INBOUND -p tcp -m tcp --dport 15090 -j RETURN\n",
		"-A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001\n",
		"-A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15006\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the plan lacks %q:\n%s", want, text)
		}
	}
	out, code, err := runInitWith(t, "--dry-run", "--output", "json", "--ipv6", "off")
	var plan redirect.Plan
	if code != exitDone || json.Unmarshal([]byte(out), &plan) != nil || len(plan.Families) != 1 || plan.Text() != text {
		t.Errorf("exit %d, %v: JSON and text differ:\n%s", code, err, out)
	}
}

func TestInitEnvironment(t *testing.T) {
	t.Setenv("ENVOY_PORT", "16001")
	text, code, err := runInitWith(t, "--dry-run", "--ipv6", "off")
	if code != exitDone || !strings.Contains(text, "--to-ports 16001\n") {
		t.Errorf("exit %d, %v:\n%s", code, err, text)
	}
	t.Setenv("ISTIO_META_DNS_CAPTURE", "perhaps")
	if _, code, err := runInitWith(t, "--dry-run"); code != exitUsage || !strings.Contains(err.Error(), "ISTIO_META_DNS_CAPTURE") {
		t.Errorf("exit %d, %v", code, err)
	}
}

func TestInitUsageErrors(t *testing.T) {
	for want, args := range map[string][]string{
		`--istio-service-cidr "10.0.0.0/33"`: {"-i", "10.0.0.0/33"},
		`--ipv6 "maybe"`:                     {"--ipv6", "maybe"},
		`--output "yaml"`:                    {"--dry-run", "--output", "yaml"},
		`--wait 0s`:                          {"--wait", "0"},
		`unknown command "extra"`:            {"extra"},
		`for JSON say --output json`:         {"--dry-run", "-o", "json"},
	} {
		if _, code, err := runInitWith(t, args...); code != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: exit %d, %v; want %s", args, code, err, want)
		}
	}
}
