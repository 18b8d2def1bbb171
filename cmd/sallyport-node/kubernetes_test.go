package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sallyport/sallyport/sidecar/agent"
	"github.com/sallyport/sallyport/sidecar/node"
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

// TestNobodyAnswers: while the agent is away a pod does not start, but one that is exempt does, and each may end.
func TestNobodyAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		do, namespace string
		fails         bool
	}{
		"starts":         {node.Add, "shop", true},
		"exempt":         {node.Add, "kube-system", false},
		"ends":           {node.Remove, "shop", false},
		"is looked at":   {node.Check, "shop", true},
		"exempt, looked": {node.Check, "kube-system", false},
	} {
		err := cniDo(&skel.CmdArgs{
			Netns: "/nowhere", Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=" + c.namespace + ";K8S_POD_NAME=web",
			StdinData: []byte(`{"cniVersion": "1.0.0", "name": "n", "type": "sallyport-cni", "runDir": "` + t.TempDir() + `", "exempt": ["kube-system"]}`),
		}, c.do)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAskedAgain: a pod's start asks again when an agent that had been asked goes without an answer, however long that took, and the other one
// answers within what is left of its patience.
func TestAskedAgain(t *testing.T) {
	dir := t.TempDir()
	listening := func() *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, node.Socket), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, patience := listening(), make(chan time.Duration, 1)
	go func() {
		conn, _ := first.Accept()
		time.AfterFunc(awayPatience+200*time.Millisecond, func() { // longer than nobody may answer
			_ = first.Close()
			_ = conn.Close()
			time.AfterFunc(awayPatience/20, func() {
				next := listening()
				conn, _ := next.Accept()
				var r node.Request
				_ = json.NewDecoder(conn).Decode(&r)
				patience <- r.Patience
				_, _ = conn.Write([]byte("{}\n"))
				_ = next.Close()
			})
		})
	}()
	if err := ask(t.Context(), dir, node.Request{Do: node.Add, Patience: cniPatience}); err != nil {
		t.Fatal(err)
	}
	if left := <-patience; left >= cniPatience-awayPatience {
		t.Errorf("the second has %s", left)
	}
}
