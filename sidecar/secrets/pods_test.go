package secrets

import (
	"bytes"
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	securityv1alpha1 "istio.io/api/security/v1alpha1"

	"github.com/sallyport/sallyport/xds/identity"
)

// TestPodsOfOneAccount share a certificate, which goes with the last of them, from Envoy and from the disk.
func TestPodsOfOneAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "state", "identity"), CARootFile: m.rootFile()})
		pods := NewPods(w, &direct{ca: m.ca, ttl: time.Hour, id: checkout})
		shown := func() bool {
			synctest.Wait()
			now := w.board.read()
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
		if now := w.board.read(); len(now.pods) > 0 {
			t.Errorf("shown: %v", now.pods)
		}
		pods.Close()
	})
}

// TestPodsTakeLittle: a pod's certificate has one goroutine, which waits, and no roots of its own: those of the agent, which looks at their file for all.
func TestPodsTakeLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 10
		m := newMesh(t)
		w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "state", "identity"), CARootFile: m.rootFile()})
		conn := &asAsked{direct{ca: m.ca, ttl: time.Hour, id: checkout}}
		stop := run(t, w, conn)
		defer stop()
		<-w.Ready()
		pods := NewPods(w, conn)
		defer pods.Close()
		synctest.Wait()
		before := goroutinesHere()
		for i := range many {
			ready, err := pods.Keep(podIdentity(i))
			if err != nil {
				t.Fatal(err)
			}
			<-ready
		}
		synctest.Wait()
		if took := goroutinesHere() - before; took > many || took == 0 {
			t.Errorf("%d pods take %d goroutines", many, took)
		}
		shared := func(when string) {
			t.Helper()
			own := w.board.read()
			for id, k := range pods.kept {
				held := k.board.read()
				if len(held.given) == 0 || &held.given[0] != &own.given[0] || &held.issued[0] != &own.issued[0] && &held.issued[0] != &own.given[0] {
					t.Errorf("%s, %s has roots of its own", when, id)
				}
			}
		}
		shared("at first")
		m.trust(newMesh(t).ca.Bundle()...)
		time.Sleep(2 * LookInterval) // the bubble's clock
		synctest.Wait()
		if now := w.board.read(); len(now.given) != 2 {
			t.Fatalf("%d roots after another one came", len(now.given))
		}
		for id, k := range pods.kept {
			if held := k.board.read(); len(held.given) != 2 {
				t.Errorf("%s has %d roots after another one came", id, len(held.given))
			}
		}
		shared("after another root came")
	})
}

// goroutinesHere is how many goroutines there are of the bubble that the caller is in: the runtime has some of its own, which come and go.
func goroutinesHere() (n int) {
	own := make([]byte, 1<<10)
	_, own, _ = bytes.Cut(own[:runtime.Stack(own, false)], []byte("synctest bubble "))
	bubble, _, _ := bytes.Cut(own, []byte("]"))
	all := make([]byte, 4<<20)
	for head := range bytes.Lines(all[:runtime.Stack(all, true)]) {
		if bytes.HasPrefix(head, []byte("goroutine ")) && bytes.Contains(head, slices.Concat([]byte("synctest bubble "), bubble, []byte("]"))) {
			n++
		}
	}
	return n
}

// TestPodsAreSavedInTurns: however many certificates come at once, few are written to the disk at a time, and nobody who is to be served waits for that.
func TestPodsAreSavedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 5 * savedAtOnce
		m := newMesh(t)
		w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "state", "identity"), CARootFile: m.rootFile()})
		pods := NewPods(w, &asAsked{direct{ca: m.ca, ttl: time.Hour, id: checkout}})
		var writing atomic.Int32
		hanging := make(chan struct{})
		pods.save = func(string, *certificate, []*x509.Certificate) error { writing.Add(1); <-hanging; return nil }
		for i := range many {
			ready, err := pods.Keep(podIdentity(i))
			if err != nil {
				t.Fatal(err)
			}
			<-ready
		}
		synctest.Wait()
		if n := writing.Load(); n != savedAtOnce {
			t.Errorf("%d are written at a time", n)
		}
		close(hanging)
		pods.Close()
		if n := writing.Load(); n != many {
			t.Errorf("%d of %d were written", n, many)
		}
	})
}

// asAsked signs for whatever identity is asked for.
type asAsked struct{ direct }

func (a *asAsked) Invoke(ctx context.Context, method string, in, out any, options ...grpc.CallOption) error {
	if as := in.(*securityv1alpha1.IstioCertificateRequest).GetMetadata().GetFields()[impersonated].GetStringValue(); as != "" {
		id, err := identity.ParseID(as)
		if err != nil {
			return err
		}
		a.mutex.Lock()
		a.id = id
		a.mutex.Unlock()
	}
	return a.direct.Invoke(ctx, method, in, out, options...)
}
