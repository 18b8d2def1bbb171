package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sallyport/sallyport/sidecar/agent"
	"github.com/sallyport/sallyport/sidecar/node/cni"
)

// TestWhenThePluginGoes: with the DaemonSet, or with the right to ask for it; an API server that does not answer takes nothing away.
func TestWhenThePluginGoes(t *testing.T) {
	set := schema.GroupResource{Group: "apps", Resource: "daemonsets"}
	now := metav1.NewTime(time.Unix(1, 0))
	for name, c := range map[string]struct {
		deleted *metav1.Time
		err     error
		want    bool
	}{
		"there":         {nil, nil, false},
		"being deleted": {&now, nil, true},
		"gone":          {nil, apierrors.NewNotFound(set, "x"), true},
		"no rights":     {nil, apierrors.NewForbidden(set, "x", nil), true},
		"no account":    {nil, apierrors.NewUnauthorized("x"), true},
		"no answer":     {nil, errors.New("connection refused"), false},
		"busy":          {nil, apierrors.NewTooManyRequests("x", 1), false},
		"late":          {nil, apierrors.NewTimeoutError("x", 1), false},
	} {
		if got := isGone(c.deleted, c.err); got != c.want {
			t.Errorf("%s: the mesh is removed: %t", name, got)
		}
	}
}

// TestInstallFlags: without folders nothing is installed; what the mesh and the cluster need to start is exempt, whatever else is.
func TestInstallFlags(t *testing.T) {
	c := agent.Config{Log: slog.New(slog.DiscardHandler)}
	c.Proxy.Namespace = "istio-system"
	if i, err := (&kubernetesFlags{}).install(c, "/run/x"); i != nil || err != nil {
		t.Errorf("without folders: %v, %v", i, err)
	}
	if _, err := (&kubernetesFlags{binDir: "/x"}).install(c, "/run/x"); err == nil {
		t.Error("one folder is enough")
	}
	i, err := (&kubernetesFlags{binDir: "/x", confDir: "/y", exempt: []string{"storage", "kube-system"}}).install(c, "/run/x")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"istio-system", "kube-node-lease", "kube-public", "kube-system", "storage"}; !slices.Equal(i.Entry.Exempt, want) || i.Entry.RunDir != "/run/x" {
		t.Errorf("%+v, want exempt %v", i.Entry, want)
	}
}

// TestSmallPlugin: the program that is the plugin alone is installed where it is beside this one, which does the same and takes ten times as long to start.
func TestSmallPlugin(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "sallyport-node")
	if got := pluginBeside(self); got != self {
		t.Errorf("alone: %s", got)
	}
	small := filepath.Join(dir, cni.Name)
	if err := os.WriteFile(small, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := pluginBeside(self); got != small {
		t.Errorf("beside it: %s", got)
	}
}
