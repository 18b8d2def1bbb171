package secrets

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/ca"
)

// log collects what is logged.
type log struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		if family.GetName() == name {
			m := family.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// Hours with certificates of one minute: renewed every half a minute, never late, never in a hurry.
func TestRunRotates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		conn := &direct{ca: m.ca, ttl: time.Minute, id: checkout}
		w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "state", "identity"), CARootFile: m.rootFile()})
		w.save = func(string, *certificate, []*x509.Certificate) error { return nil } // the disk has its own tests
		stop := run(t, w, conn)
		defer stop()
		<-w.Ready()
		const hours = 2
		last, changes := "", 0
		for range hours * 3600 {
			time.Sleep(time.Second) // the bubble's clock
			s := w.Status()
			if left := time.Until(s.Expires); left < 20*time.Second {
				t.Fatalf("only %s left", left)
			}
			if now := serial(w); now != last {
				last = now
				changes++
			}
		}
		if want := hours * 120; changes < want*9/10 || changes > want*11/10 || conn.count() != changes {
			t.Errorf("%d certificates and %d requests in %d hours, want about %d", changes, conn.count(), hours, want)
		}
	})
}

// A controller that is away is asked again and again; the expiry is loud; everything mends itself.
func TestRunSurvivesADeadController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		conn := &direct{ca: m.ca, ttl: time.Minute, id: checkout}
		reg := prometheus.NewRegistry()
		var lines log
		w := newWorkload(t, Options{
			Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile(),
			Metrics: reg, Log: slog.New(slog.NewTextHandler(&lines, nil)),
		})
		stop := run(t, w, conn)
		defer stop()
		<-w.Ready()
		synctest.Wait()
		first := serial(w)

		conn.set(errors.New("connection refused"))
		time.Sleep(59 * time.Second)
		if s := w.Status(); s.Expired || serial(w) != first || value(t, reg, "sallyport_agent_certificate_expired") != 0 {
			t.Errorf("before the expiry: %+v", s)
		}
		if n := conn.count(); n < 8 || n > 40 {
			t.Errorf("%d requests in the second half of a minute", n)
		}
		if strings.Contains(lines.String(), "EXPIRED") {
			t.Error("expiry reported early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := w.Status(); !s.Expired || value(t, reg, "sallyport_agent_certificate_expired") != 1 {
			t.Errorf("after the expiry: %+v", s)
		}
		if n := strings.Count(lines.String(), "EXPIRED"); n != 1 {
			t.Errorf("expiry reported %d times", n)
		}
		material := w.board.read()
		if all, err := material.secrets(time.Now()); err != nil || all[CertificateName].body != nil || all[RootsName].body == nil {
			t.Errorf("secrets with an expired certificate: %v, %v", all, err)
		}
		conn.set(nil)
		time.Sleep(maxRetryWithout)
		synctest.Wait()
		if s := w.Status(); s.Expired || serial(w) == first || value(t, reg, "sallyport_agent_certificate_expired") != 0 {
			t.Errorf("after the return: %+v", s)
		}
	})
}

// A disk that hangs or is full is no reason to show an old certificate.
func TestStorageDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		folder := filepath.Join(t.TempDir(), "identity")
		reg := prometheus.NewRegistry()
		w := newWorkload(t, Options{Folder: folder, CARootFile: m.rootFile(), Metrics: reg})
		hanging, attempts := make(chan struct{}), 0
		w.save = func(folder string, c *certificate, roots []*x509.Certificate) error {
			if attempts++; attempts == 1 {
				<-hanging
				return errors.New("no space left on device")
			}
			return save(folder, c, roots)
		}
		stop := run(t, w, &direct{ca: m.ca, ttl: time.Minute, id: checkout})
		defer stop()
		<-w.Ready()
		for range 3600 {
			time.Sleep(time.Second)
			if left := time.Until(w.Status().Expires); left < 20*time.Second {
				t.Fatalf("only %s left", left)
			}
		}
		close(hanging)
		stop()
		if attempts != 2 {
			t.Errorf("%d attempts to store, want the first and the newest", attempts)
		}
		if c, _, err := load(folder); err != nil || c.leaf.SerialNumber.String() != serial(w) {
			t.Errorf("the newest certificate is not stored (%v)", err)
		}
		if value(t, reg, "sallyport_agent_certificate_save_failures_total") != 1 {
			t.Error("the failure is not counted")
		}
	})
}

// An agent that restarts while the controller is dead serves what it stored, for as long as it is valid.
func TestRestartWithoutController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		folder := filepath.Join(t.TempDir(), "identity")
		o := Options{Folder: folder, CARootFile: m.rootFile(), Namespace: "shop", ServiceAccount: "checkout"}
		conn := &direct{ca: m.ca, ttl: time.Hour, id: checkout}
		w := newWorkload(t, o)
		stop := run(t, w, conn)
		<-w.Ready()
		stop()
		held := serial(w)

		conn.set(errors.New("connection refused"))
		time.Sleep(50 * time.Minute)
		again := newWorkload(t, o)
		if serial(again) != held {
			t.Error("the stored certificate is not served")
		}
		<-again.Ready()

		somebody := o
		somebody.ServiceAccount = "admin"
		if w := newWorkload(t, somebody); serial(w) != "" {
			t.Error("another account's stored certificate is served")
		}
		noRoots := o
		noRoots.CARootFile = "/nonexistent"
		if w := newWorkload(t, noRoots); serial(w) != held {
			t.Error("without the file of roots the stored certificate is not served")
		}
		time.Sleep(10 * time.Minute)
		late := newWorkload(t, o)
		if serial(late) != "" {
			t.Error("an expired certificate is served")
		}
		if m := late.board.read(); len(m.roots()) != 1 {
			t.Error("no roots")
		}
	})
}

// Roots come from the controller and from the file; what one of them lacks the other has.
func TestRootsAreAUnion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, other, third := newMesh(t), newMesh(t), newMesh(t)
		file := filepath.Join(t.TempDir(), "root-cert.pem")
		write := func(all ...[]byte) {
			if err := os.WriteFile(file, bytes.Join(all, nil), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write(m.ca.BundlePEM(), other.ca.BundlePEM())
		conn := &direct{ca: m.ca, ttl: time.Hour, id: checkout}
		w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: file})
		stop := run(t, w, conn)
		defer stop()
		<-w.Ready()
		want := func(step string, all ...*mesh) {
			t.Helper()
			time.Sleep(LookInterval + time.Second)
			synctest.Wait()
			var bundle []byte
			for _, m := range all {
				bundle = append(bundle, m.ca.BundlePEM()...)
			}
			if m := w.board.read(); !bytes.Equal(encodeCertificates(m.roots()), bundle) {
				t.Errorf("%s: %d roots, want %d", step, len(m.roots()), len(all))
			}
		}
		want("both", m, other)
		write([]byte("half a fi"))
		want("an unreadable file changes nothing", m, other)
		if conn.count() != 1 {
			t.Errorf("%d requests", conn.count())
		}
		write(m.ca.BundlePEM(), third.ca.BundlePEM())
		want("the file changed", m, third)
		if conn.count() != 1 {
			t.Errorf("%d requests: the certificate is still vouched for", conn.count())
		}
		conn.mutex.Lock()
		conn.ca = third.ca
		conn.mutex.Unlock()
		write(third.ca.BundlePEM())
		want("the mesh has another CA: a new certificate at once", third)
		if conn.count() != 2 {
			t.Errorf("%d requests, want 2", conn.count())
		}
		write(other.ca.BundlePEM())
		want("the controller's TLS has a CA of its own", third, other)
		time.Sleep(10 * time.Minute)
		if conn.count() != 3 {
			t.Errorf("%d requests, want 3: no asking without end", conn.count())
		}
	})
}

func TestAnswersRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		var lines log
		o := Options{
			Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile(),
			Namespace: "shop", ServiceAccount: "checkout", Log: slog.New(slog.NewTextHandler(&lines, nil)),
		}
		w := newWorkload(t, o)
		conn := &direct{ca: m.ca, ttl: time.Hour, id: identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "admin"}}
		stop := run(t, w, conn)
		time.Sleep(time.Minute)
		stop()
		if serial(w) != "" || !strings.Contains(lines.String(), "sa/admin") {
			t.Errorf("another's certificate was taken; log: %s", lines.String())
		}
	})
}

func TestReadResponse(t *testing.T) {
	m, other := newMesh(t), newMesh(t)
	key, csr, err := newRequest()
	if err != nil {
		t.Fatal(err)
	}
	otherKey, _, err := newRequest()
	if err != nil {
		t.Fatal(err)
	}
	chain, err := m.ca.Sign(csr, checkout, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := readResponse(chain, key, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, err string
		chain     []string
		key       []byte
		now       time.Time
	}{
		{"empty", "0 certificates", nil, key, time.Now()},
		{"no root", "1 certificates", chain[:1], key, time.Now()},
		{"garbage root", "roots", []string{chain[0], "x"}, key, time.Now()},
		{"garbage leaf", "certificate", []string{"x", chain[1]}, key, time.Now()},
		{"another key", "private key", chain, otherKey, time.Now()},
		{"another root", "does not lead", []string{chain[0], string(other.ca.BundlePEM())}, key, time.Now()},
		{"expired", "clocks", chain, key, time.Now().Add(2 * time.Hour)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := readResponse(c.chain, c.key, c.now)
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// FuzzReadResponse holds that whatever a controller answers does not panic, and that what is taken is whole.
func FuzzReadResponse(f *testing.F) {
	m := newMesh(f)
	key, csr, err := newRequest()
	if err != nil {
		f.Fatal(err)
	}
	chain, err := m.ca.Sign(csr, checkout, ca.DefaultTTL)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(chain[0], chain[1])
	f.Add("", "")
	now := time.Now()
	f.Fuzz(func(t *testing.T, leaf, roots string) {
		c, issued, err := readResponse([]string{leaf, roots}, key, now)
		if err == nil && (len(issued) == 0 || c.spiffeID() == "" || c.trustedBy(issued, now) != nil) {
			t.Fatal("half an answer was taken")
		}
	})
}

func TestRunEnds(t *testing.T) {
	m := newMesh(t)
	w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Run(ctx, &direct{ca: m.ca, ttl: time.Hour, id: checkout})
}
