package ca

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func open(t testing.TB, o Options) *CA {
	t.Helper()
	if o.DataDir == "" {
		o.DataDir = t.TempDir()
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// However many controllers start on an empty folder, the mesh has one root, and it outlives them.
func TestOpenMakesOneRoot(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	bundles := make([][]byte, 16)
	var group sync.WaitGroup
	for i := range bundles {
		group.Go(func() {
			c, err := Open(Options{DataDir: data})
			if err != nil {
				t.Error(err)
				return
			}
			bundles[i] = c.BundlePEM()
		})
	}
	group.Wait()
	for _, b := range bundles {
		if !bytes.Equal(b, bundles[0]) {
			t.Fatal("two roots in one mesh")
		}
	}
	written, err := os.ReadFile(filepath.Join(data, BundleFile))
	if err != nil || !bytes.Equal(written, bundles[0]) {
		t.Errorf("root-cert.pem is not the bundle (%v)", err)
	}
	if info, err := os.Stat(filepath.Join(data, "ca", "ca-key.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key's mode %v, %v; want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(data, "ca", ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A crash between key and certificate is mended by the next start.
func TestOpenAfterACrash(t *testing.T) {
	data := t.TempDir()
	first := open(t, Options{DataDir: data})
	if err := os.Remove(filepath.Join(data, "ca", "ca-cert.pem")); err != nil {
		t.Fatal(err)
	}
	second := open(t, Options{DataDir: data})
	a, b := first.Bundle()[0].PublicKey.(*ecdsa.PublicKey), second.Bundle()[0].PublicKey
	if !a.Equal(b) {
		t.Error("the key changed")
	}
}

func TestRootRotation(t *testing.T) {
	data := t.TempDir()
	c := open(t, Options{DataDir: data})
	old := c.Bundle()[0]
	nextData := t.TempDir()
	next := open(t, Options{DataDir: nextData}).Bundle()[0]

	roots := filepath.Join(data, "ca", "roots")
	if err := os.MkdirAll(roots, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name string, all ...*x509.Certificate) {
		if err := pemfile.Replace(filepath.Join(roots, name), 0o644, pemfile.EncodeCertificates(all...)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(step string, all ...*x509.Certificate) {
		t.Helper()
		if _, err := c.Reload(); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if !bytes.Equal(c.BundlePEM(), pemfile.EncodeCertificates(all...)) {
			t.Errorf("%s: the bundle has %d roots, want %d, the signing one first", step, len(c.Bundle()), len(all))
		}
		written, _ := os.ReadFile(filepath.Join(data, BundleFile))
		if !bytes.Equal(written, c.BundlePEM()) {
			t.Errorf("%s: root-cert.pem is not the bundle", step)
		}
	}
	write("next.pem", next)
	want("trust the next", old, next)

	copyFile(t, filepath.Join(nextData, "ca", "ca-key.pem"), filepath.Join(data, "ca", "ca-key.pem"))
	if _, err := c.Reload(); err == nil {
		t.Error("a key that does not fit was taken")
	}
	if !c.Bundle()[0].Equal(old) {
		t.Error("a failed reload changed the CA")
	}
	copyFile(t, filepath.Join(nextData, "ca", "ca-cert.pem"), filepath.Join(data, "ca", "ca-cert.pem"))
	write("old.pem", old)
	want("sign with the next", next, old)

	if err := os.RemoveAll(roots); err != nil {
		t.Fatal(err)
	}
	want("trust the old no more", next)
	if changed, err := c.Reload(); changed || err != nil {
		t.Errorf("Reload of the same = %v, %v", changed, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := pemfile.Replace(to, 0o600, content); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := t.TempDir()
		c := open(t, Options{DataDir: data})
		ctx, cancel := context.WithCancel(t.Context())
		go c.Watch(ctx, 10*time.Second)
		roots := filepath.Join(data, "ca", "roots")
		if err := os.MkdirAll(roots, 0o700); err != nil {
			t.Fatal(err)
		}
		other := open(t, Options{})
		if err := os.WriteFile(filepath.Join(roots, "next.pem"), other.BundlePEM(), 0o644); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second) // the bubble's clock
		synctest.Wait()
		if len(c.Bundle()) != 2 {
			t.Errorf("%d roots, want 2", len(c.Bundle()))
		}
		cancel()
		synctest.Wait()
	})
}

func TestOpenRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"no data folder":      {},
		"bad trust domain":    {DataDir: t.TempDir(), TrustDomain: "Cluster"},
		"no such cacerts":     {DataDir: t.TempDir(), CACertsDir: "/nonexistent"},
		"the root is too old": {DataDir: expiredFolder(t)},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Open(o); err == nil {
				t.Error("Open succeeded")
			}
		})
	}
}

func expiredFolder(t *testing.T) string {
	data := t.TempDir()
	long := func() time.Time { return time.Now().Add(-11 * 365 * 24 * time.Hour) }
	open(t, Options{DataDir: data, Now: long})
	return data
}
