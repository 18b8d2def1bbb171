package apiserver

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/e2e/world"
)

// startLimit is how long the API server may take on a busy machine; alone it takes about four seconds.
const startLimit = 2 * time.Minute

// Options change what Start does.
type Options struct {
	WithoutCRDs bool     // leave the mesh's CRDs away; ApplyMeshCRDs brings them later
	CRDs        []string // more files with CRDs (YAML, several documents each) to apply
}

// Server is a running API server.
type Server struct {
	Config     *rest.Config // as a member of system:masters, without a client-side rate limit
	Kubeconfig string       // a file with the same access, for programs
}

// Start runs an API server with the mesh's CRDs until the test ends, and waits until both are ready to use. It skips the
// test when the programs are not installed.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	return StartWith(t, Options{}).Config
}

// StartWith is Start with options.
func StartWith(t testing.TB, o Options) *Server {
	t.Helper()
	programs, err := findPrograms()
	if err != nil {
		t.Skipf("no API server to test with: %v", err)
	}
	run, err := world.NewRun()
	if err != nil {
		t.Fatalf("API server: %v", err)
	}
	t.Cleanup(func() { finish(t, run) })

	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	server, err := start(ctx, run, programs)
	if err != nil {
		t.Fatalf("API server: %v", err)
	}
	if !o.WithoutCRDs {
		err = ApplyMeshCRDs(ctx, server.Config)
	}
	if err == nil {
		err = ApplyCRDs(ctx, server.Config, o.CRDs...)
	}
	if err != nil {
		t.Fatalf("API server: %v", err)
	}
	return server
}

func finish(t testing.TB, run *world.Run) {
	if t.Failed() {
		if kept, err := run.SaveLogs(); err == nil {
			t.Logf("logs of etcd and the API server: %s", kept)
		}
	}
	if err := run.Close(); err != nil {
		t.Errorf("API server: %v", err)
	}
}
