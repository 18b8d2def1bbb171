package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// TestStartsFewPrograms holds that a pod that is taken in costs two programs, one for each family, once a process knows what is installed: a pod waits for them before
// it starts.
func TestStartsFewPrograms(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	folder := t.TempDir()
	started := filepath.Join(folder, "started")
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-nft", "-legacy"} {
			for _, action := range []string{"", "-save", "-restore"} {
				name := family + suffix + action
				program, err := exec.LookPath(name)
				if err != nil {
					t.Skip(err)
				}
				script := fmt.Sprintf("#!/bin/sh\necho %s >>%s\nexec %s \"$@\"\n", name, started, program)
				if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	apply := func() []string {
		t.Helper()
		name := fmt.Sprintf("sprd%d-%dfew", os.Getpid(), labs.Add(1))
		sh(t, "ip netns add "+name)
		t.Cleanup(func() { sh(t, "ip netns del "+name) })
		sh(t, "ip -n "+name+" link set lo up")
		if err := os.WriteFile(started, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ns.WithNetNSPath("/run/netns/"+name, func(ns.NetNS) error {
			return Apply(context.Background(), redirect.BuildAmbient(redirect.AmbientRules{IPv6: true}), redirect.AmbientDivert, Run{Wait: time.Minute, Log: slog.New(slog.DiscardHandler)})
		}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(started)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
	first := apply()
	if all := apply(); len(all) > 2 {
		t.Errorf("%d programs were started, and %d the first time: %v", len(all), len(first), all)
	}
}
