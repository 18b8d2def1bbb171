package secrets

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestPodsOfOneAccount share a certificate, which goes with the last of them, from Envoy and from the disk.
func TestPodsOfOneAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "state", "identity"), CARootFile: m.rootFile()})
		pods := NewPods(w, &direct{ca: m.ca, ttl: time.Hour, id: checkout})
		shown := func() bool {
			synctest.Wait()
			now, _ := w.board.read()
			_, ok := now.pods[checkout.String()]
			return ok
		}
		ready, err := pods.Keep(checkout.String())
		if err != nil {
			t.Fatal(err)
		}
		<-ready
		if _, err := pods.Keep(checkout.String()); err != nil || !shown() {
			t.Errorf("two pods: %v, shown %t", err, shown())
		}
		pods.Drop(checkout.String())
		if !shown() {
			t.Error("it went with the first of two pods")
		}
		pods.Drop(checkout.String())
		if shown() {
			t.Error("it stays without a pod")
		}
		pods.Close()
		if _, err := os.Stat(pods.folder(checkout.String())); !os.IsNotExist(err) {
			t.Errorf("it stays on the disk: %v", err)
		}
	})
}

// TestPodsOfAnother: a certificate of another identity than was asked for is shown to nobody.
func TestPodsOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "state", "identity"), CARootFile: m.rootFile()})
		pods := NewPods(w, &direct{ca: m.ca, ttl: time.Hour, id: checkout})
		ready, err := pods.Keep("spiffe://cluster.local/ns/bank/sa/vault")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		select {
		case <-ready:
		case <-ctx.Done():
		}
		if now, _ := w.board.read(); len(now.pods) > 0 {
			t.Errorf("shown: %v", now.pods)
		}
		pods.Close()
	})
}
