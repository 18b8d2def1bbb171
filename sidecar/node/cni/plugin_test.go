package cni

import (
	"encoding/json"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
)

// TestNobodyAnswers: while the agent is away a pod does not start, but one that is exempt does, and each may end.
func TestNobodyAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		do, namespace string
		fails         bool
	}{
		"starts":         {Add, "shop", true},
		"exempt":         {Add, "kube-system", false},
		"ends":           {Remove, "shop", false},
		"is looked at":   {Check, "shop", true},
		"exempt, looked": {Check, "kube-system", false},
	} {
		err := do(&skel.CmdArgs{
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
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, Socket), Net: "unix"})
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
				var r Request
				_ = json.NewDecoder(conn).Decode(&r)
				patience <- r.Patience
				_, _ = conn.Write([]byte("{}\n"))
				_ = next.Close()
			})
		})
	}()
	if err := ask(t.Context(), dir, Request{Do: Add, Patience: startPatience}); err != nil {
		t.Fatal(err)
	}
	if left := <-patience; left >= startPatience-awayPatience {
		t.Errorf("the second has %s", left)
	}
}
