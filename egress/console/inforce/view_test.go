package inforce

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/egress/console"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// readView is a view that has read some objects, of a server that nobody asks.
func readView(t *testing.T) *view {
	t.Helper()
	settings := mesh.Default()
	v := newView(Options{Access: &rest.Config{Host: "https://127.0.0.1:1"}, Logger: slog.New(slog.DiscardHandler)})
	v.source = kube.NewDeciding(&rest.Config{Host: "https://127.0.0.1:1"}, kube.Options{})
	v.registry = registry.NewWithoutSecrets(&settings)
	v.apply(t.Context(), changesOf(t, "a"))
	return v
}

func changesOf(t *testing.T, name string) (out []config.Change) {
	t.Helper()
	read := decode.File("x.yaml", []byte("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: "+name+", namespace: shop}\nspec: {hosts: ["+name+".test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}\n"))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	return append(out, config.Change{Key: read.Objects[0].Key, Object: &read.Objects[0]})
}

// TestTry: what is tried is nobody else's to see, changes wait for it, and it ends with what was there before.
func TestTry(t *testing.T) {
	v := readView(t)
	before, err := v.config()
	if err != nil {
		t.Fatal(err)
	}
	applied := make(chan struct{})
	err = v.try(t.Context(), func(c *console.Config, r *registry.Registry) error {
		would := r.Would(changesOf(t, "b")...)
		if len(would.Services("b.test")) != 1 || len(would.Services("a.test")) != 1 || len(r.Snapshot().Services("b.test")) != 0 {
			t.Error("what would be is not what was asked for, or is left there")
		}
		go func() { defer close(applied); v.apply(t.Context(), changesOf(t, "c")) }()
		busy, cancel := context.WithCancel(t.Context())
		cancel()
		if err := v.try(busy, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a second one has the registry, too: %v", err)
		}
		v.apply(busy, changesOf(t, "d")) // neither of them waits when the reader ends
		v.settings = func() (mesh.Config, error) { return mesh.Default(), nil }
		v.reload(busy)
		if now, err := v.config(); err != nil || now.Snapshot != before.Snapshot || c.Snapshot != before.Snapshot {
			t.Errorf("readers wait, or see what is tried: %v", err)
		}
		return nil
	})
	<-applied
	after, changed := v.config()
	if err != nil || changed != nil || len(after.Snapshot.Services("c.test")) != 1 || len(after.Snapshot.Services("b.test")) != 0 {
		t.Errorf("%v, %v", err, changed)
	}
}

// TestBroken: where nobody knows what a question left, there is no answer until all is read anew.
func TestBroken(t *testing.T) {
	v := readView(t)
	func() {
		defer func() { _ = recover() }()
		_ = v.try(t.Context(), func(*console.Config, *registry.Registry) error { panic("broken") })
	}()
	if _, err := v.config(); !errors.Is(err, errBroken) || !v.failed() {
		t.Errorf("it goes on with a registry that may be broken: %v", err)
	}
	v.apply(t.Context(), changesOf(t, "b")) // what comes in until it is read anew
	if err := v.try(t.Context(), nil); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}
