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

	process *world.Process
	again   func(context.Context) (*Server, error)
}

// Kill ends the API server with SIGKILL; what it kept is still in its etcd.
func (s *Server) Kill() error { return s.process.Kill() }

// Again starts the API server that was killed, with what it kept. It may have another port then, as Config and Kubeconfig say.
func (s *Server) Again(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	next, err := severalTimes(ctx, s.again)
	if err == nil {
		*s = *next
	}
	return err
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
