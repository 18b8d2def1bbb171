package secrets

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestSecretsAreMadeOnce: a node's agent has a stream for each pod's certificate, and all of them look when one pod comes. What there is is put together once for all, and anew when it is
// something else, or the certificate ends.
func TestSecretsAreMadeOnce(t *testing.T) {
	m := newMesh(t)
	w := newWorkload(t, Options{Folder: filepath.Join(t.TempDir(), "identity"), CARootFile: m.rootFile()})
	c := obtain(t, m)
	w.publish(func(was material) material { was.certificate = c; return was })
	held := func(at time.Time) map[string]secret {
		t.Helper()
		now := w.board.read()
		all, err := w.board.secrets(now, at)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	same := func(a, b map[string]secret) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	began := c.leaf.NotAfter.Add(-time.Minute)
	first := held(began)
	if !same(first, held(began.Add(time.Second))) {
		t.Error("they are made for each who looks")
	}
	w.Give([]*discoveryv3.Resource{given(t, "kubernetes://shop/a", "one")}, nil)
	if next := held(began); same(first, next) || next["kubernetes://shop/a"].body == nil || first["kubernetes://shop/a"].body != nil {
		t.Error("what is new is not among them, or is among those of before")
	}
	for at, want := range map[time.Time]bool{began: true, c.leaf.NotAfter: false} {
		if got := held(at)[CertificateName].body != nil; got != want {
			t.Errorf("%v before its end the certificate is handed out: %t", c.leaf.NotAfter.Sub(at), got)
		}
	}
}

// BenchmarkOnePodMore is what the streams of 200 pods do when one more comes.
func BenchmarkOnePodMore(b *testing.B) {
	const streams = 200
	mesh := newMesh(b)
	pods := map[string]secret{}
	for i := range streams {
		name := fmt.Sprintf("spiffe://cluster.local/ns/n%d/sa/app", i)
		packed, err := pack(obtain(b, mesh).secret(name))
		if err != nil {
			b.Fatal(err)
		}
		pods[name] = packed
	}
	board, own := newBoard(), obtain(b, mesh)
	b.ReportAllocs()
	for b.Loop() {
		m := &material{certificate: own, issued: mesh.ca.Bundle(), pods: pods}
		for range streams {
			if _, err := board.secrets(m, time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	}
}
