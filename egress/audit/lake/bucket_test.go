package lake

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/lake/place"
)

const (
	accessKey = "tests"
	secretKey = "nobody-may-see-this"
)

// s3 is a real S3 server over a folder, behind a proxy that a test may let fail.
type s3 struct {
	*httptest.Server
	mu    sync.Mutex
	fault func(*http.Request) fault
}

// fault is what the proxy does with a request.
type fault int

const (
	none   fault = iota
	refuse       // 500, and nothing is done
	forget       // it is done, and answered with 500
	hang         // nothing happens until the client gives up
)

func (s *s3) set(f func(*http.Request) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// serveS3 skips the test where the server was not built.
func serveS3(t *testing.T) *s3 {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	built, _ := filepath.Glob(filepath.Join(cache, "sallyport", "versitygw-*", "versitygw"))
	if len(built) == 0 {
		t.Skip("there is no S3 server: run `make cluster-tools`")
	}
	slices.Sort(built)
	dir, err := os.MkdirTemp("", "s3-") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	for _, d := range []string{"root/logs", "meta"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(built[len(built)-1], "--port", socket, "--access", accessKey, "--secret", secretKey, "--quiet", "posix", "--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "root"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		for {
			c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
			if err == nil || ctx.Err() != nil {
				return c, err
			}
			select { // it is starting
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}}
	t.Cleanup(transport.CloseIdleConnections)
	over := make(chan struct{})
	s := &s3{fault: func(*http.Request) fault { return none }}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: "s3"})
		r.Out.Host = r.In.Host // which is signed
	}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		f := s.fault(r)
		s.mu.Unlock()
		switch f {
		case none:
			proxy.ServeHTTP(w, r)
			return
		case forget:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		case hang:
			select {
			case <-r.Context().Done():
			case <-over:
			}
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(over) })
	return s
}

func (s *s3) place(t *testing.T, patience time.Duration) place.Place {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = "+accessKey+"\naws_secret_access_key = "+secretKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := place.Parse("s3://logs/egress?region=us-east-1&endpoint="+s.URL, place.Access{Credentials: file, Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.(interface{ CloseIdleConnections() }).CloseIdleConnections)
	return p
}

// TestBucket: a lake behind an S3 API gives the same answers, also when the server answers 500, does things and says that it did not, or
// says nothing at all.
func TestBucket(t *testing.T) {
	server := serveS3(t)
	l := newLab(t)
	p := server.place(t, time.Second)
	w := l.writer(t, p)
	var log bytes.Buffer
	w.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := rand.New(rand.NewPCG(5, 6))
	hangs := 0
	server.set(func(q *http.Request) fault {
		switch n := r.IntN(24); {
		case q.Method == http.MethodGet && strings.Contains(q.URL.RawQuery, "list-type"):
			return none
		case n < 2:
			return refuse
		case n < 4:
			return forget
		case n == 4 && hangs < 2:
			hangs++
			return hang
		}
		return none
	})
	failures := 0
	for i := range uint64(4) {
		l.add(t, random(i, 80))
		for {
			err := w.Pass(t.Context())
			if err == nil {
				break
			}
			if strings.Contains(err.Error(), secretKey) {
				t.Fatalf("the error tells the secret: %v", err)
			}
			if failures++; failures > 500 {
				t.Fatal(err)
			}
		}
	}
	server.set(func(*http.Request) fault { return none })
	if failures == 0 || hangs == 0 {
		t.Errorf("%d failures, %d hangs: nothing was tried", failures, hangs)
	}
	calm := server.place(t, time.Minute)
	l.same(t, calm)
	l.onlyWhatCounts(t, calm)
	for _, file := range []string{stateFile, statusFile} {
		if data, err := os.ReadFile(filepath.Join(l.dir, file)); err != nil || bytes.Contains(data, []byte(secretKey)) {
			t.Errorf("%s: %s, %v", file, data, err)
		}
	}
}

// TestRefused: who may not write waits, and says why without saying how it tried to get in.
func TestRefused(t *testing.T) {
	server := serveS3(t)
	l := newLab(t)
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = tests\naws_secret_access_key = wrong-and-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := place.Parse("s3://logs?region=us-east-1&endpoint="+server.URL, place.Access{Credentials: file, Patience: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer p.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	w := l.writer(t, p)
	l.add(t, random(1, 10))
	if err := w.Pass(t.Context()); err == nil || strings.Contains(err.Error(), "wrong-and-secret") || !strings.Contains(err.Error(), "signature") {
		t.Errorf("%v", err)
	}
	s, err := ReadStatus(l.dir)
	if err != nil || s.Waiting != 10 || s.Failing == "" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = "+accessKey+"\naws_secret_access_key = "+secretKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Pass(t.Context()); err != nil { // credentials are read anew
		t.Error(err)
	}
	if s, err := ReadStatus(l.dir); err != nil || s.Waiting != 0 || s.Failing != "" || s.Records != 10 {
		t.Errorf("%+v, %v", s, err)
	}
}
