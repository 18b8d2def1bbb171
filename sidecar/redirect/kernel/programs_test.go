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
	started := filepath.Join(t.TempDir(), "started")
	wrapPrograms(t, func(name string) string { return "echo " + name + " >>" + started })
	apply := func() []string {
		t.Helper()
		if err := os.WriteFile(started, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := applyToPod(t); err != nil {
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

// TestWritesFamiliesSideBySide holds that neither family's program waits for the other's end: each of these goes on when both have begun.
func TestWritesFamiliesSideBySide(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	folder := t.TempDir()
	wrapPrograms(t, func(name string) string {
		if !strings.HasSuffix(name, "-restore") {
			return ":"
		}
		family, _, _ := strings.Cut(name, "-")
		return fmt.Sprintf("touch %[1]s/%[2]s; n=0; until [ -e %[1]s/iptables -a -e %[1]s/ip6tables ]; do n=$((n+1)); [ $n -lt 6000 ] || exit 9; sleep 0.01; done", folder, family)
	})
	if err := applyToPod(t); err != nil {
		t.Error(err)
	}
}

// wrapPrograms has each of iptables' programs do something, in a shell, before it begins.
func wrapPrograms(t *testing.T, before func(name string) string) {
	t.Helper()
	folder := t.TempDir()
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-nft", "-legacy"} {
			for _, action := range []string{"", "-save", "-restore"} {
				name := family + suffix + action
				program, err := exec.LookPath(name)
				if err != nil {
					t.Skip(err)
				}
				script := fmt.Sprintf("#!/bin/sh\n%s\nexec %s \"$@\"\n", before(name), program)
				if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
}

// applyToPod writes the rules of a pod that its node serves into a network namespace of its own.
func applyToPod(t *testing.T) error {
	t.Helper()
	name := fmt.Sprintf("sprd%d-%dfew", os.Getpid(), labs.Add(1))
	sh(t, "ip netns add "+name)
	t.Cleanup(func() { sh(t, "ip netns del "+name) })
	sh(t, "ip -n "+name+" link set lo up")
	return ns.WithNetNSPath("/run/netns/"+name, func(ns.NetNS) error {
		return Apply(context.Background(), redirect.BuildAmbient(redirect.AmbientRules{IPv6: true}), redirect.AmbientDivert, Run{Wait: time.Minute, Log: slog.New(slog.DiscardHandler)})
	})
}
