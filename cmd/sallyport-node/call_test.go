package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/cmd/program"
)

// call runs the program's command line in this process.
func call(args ...string) (string, int, error) {
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.Execute()
	return out.String(), program.ExitCode(err), err
}

func TestWrongCalls(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for args, want := range map[string]string{
		"guard":                                  "--node-name is missing",
		"guard --node-name n --allow 10.0.0.1/8": "did you mean 10.0.0.0/8?",
		"guard --node-name n --pod-network 0.0.0.0/0":      "whole world",
		"guard --node-name n --service-network x":          `--service-network "x"`,
		"guard --node-name n --exempt app=x":               "--exempt",
		"guard --node-name n --namespace-selector a=b=c":   "--namespace-selector",
		"guard --node-name n --namespace-selector=":        "no pod would be guarded",
		"guard --node-name n --namespaces kube-system":     "never guarded",
		"guard --node-name n --system-namespace=":          "--system-namespace",
		"guard --node-name n --unknown-pods maybe":         "say deny or allow",
		"guard --node-name n --spoofed-sources maybe":      "say deny or allow",
		"guard --node-name n --on-exit maybe":              "say keep or release",
		"guard --node-name n --log-level loud":             "debug, info, warn or error",
		"guard --node-name n --kubeconfig /nowhere/config": "/nowhere/config",
		"guard --node-name n --colour":                     "--colour",
		"guard --node-name n extra":                        `"extra"`,
		"clean extra":                                      `"extra"`,
		"nothing":                                          `"nothing"`,
		"pod ad shop/cart-1":                               `"ad" is none of add, remove, check`,
		"pod add shop":                                     `"shop": write NAMESPACE/NAME`,
		"pod add":                                          "accepts 2 arg(s)",
		"agent --ip x":                                     `--ip "x"`,
		"agent --ip 10.0.0.1":                              `--name ""`,
	} {
		if _, code, err := call(strings.Fields(args)...); code != program.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: exit code %d, %v, want %q", args, code, err, want)
		}
	}
	for _, args := range []string{"", "--help", "guard --help", "clean --help", "agent --help", "pod --help", "cni --help"} {
		out, code, err := call(strings.Fields(args)...)
		if code != program.Done || !strings.Contains(out, "Usage:") {
			t.Errorf("%s: %d, %v: %s", args, code, err, out)
		}
	}
}
