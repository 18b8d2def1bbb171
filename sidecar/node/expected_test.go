package node

import (
	"errors"
	"log/slog"
	"maps"
	"testing"

	"github.com/sallyport/sallyport/xds/ambient"
)

// counted counts who keeps which certificate.
type counted struct {
	kept  map[string]int
	fails bool
}

func (c *counted) Keep(identity string) (<-chan struct{}, error) {
	if c.fails {
		return nil, errors.New("no roots")
	}
	c.kept[identity]++
	return nil, nil
}

func (c *counted) Drop(identity string) {
	if c.kept[identity]--; c.kept[identity] == 0 {
		delete(c.kept, identity)
	}
}

// TestCertificatesAreExpected: a pod's certificate is asked for when the controller tells of the pod, before anybody knows its network, and is kept as long as the controller tells of it.
func TestCertificatesAreExpected(t *testing.T) {
	c := &counted{kept: map[string]int{}, fails: true}
	p, err := New(Config{Log: slog.New(slog.DiscardHandler), Folder: t.TempDir(), Certificates: c})
	if err != nil {
		t.Fatal(err)
	}
	has := func(when string, want map[string]int) {
		t.Helper()
		p.reconcile(t.Context())
		if !maps.Equal(c.kept, want) {
			t.Errorf("%s: %v, want %v", when, c.kept, want)
		}
	}
	p.remote["shop/cart-0"] = ambient.Pod{In: true, Namespace: "shop", Name: "cart-0", UID: "u1", Identity: "a"}
	p.remote["shop/cart-1"] = ambient.Pod{In: true, Namespace: "shop", Name: "cart-1", UID: "u2", Identity: "a"}
	p.remote["shop/out"] = ambient.Pod{Namespace: "shop", Name: "out", UID: "u3", Identity: "b"}
	p.remote["shop/cannot"] = ambient.Pod{In: true, Why: "x", Namespace: "shop", Name: "cannot", UID: "u4", Identity: "c"}
	has("none to be had", map[string]int{})
	c.fails = false
	has("told of", map[string]int{"a": 2})
	has("looked at again", map[string]int{"a": 2})
	p.remote["shop/cart-1"] = ambient.Pod{In: true, Namespace: "shop", Name: "cart-1", UID: "u5", Identity: "d"}
	has("another of its name", map[string]int{"a": 1, "d": 1})
	delete(p.remote, "shop/cart-0")
	has("one is gone", map[string]int{"d": 1})
}
