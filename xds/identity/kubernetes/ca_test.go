package kubernetes

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/kubeca"
)

// testOneCA: replicas that start at the same moment share one root, and follow its rotation; of commands that rotate at
// the same moment one does.
func testOneCA(t *testing.T, c cluster) {
	store := kubeca.NewStore(c.CoreV1(), "istio-system")
	replicas := make([]*ca.CA, 12)
	var group sync.WaitGroup
	for i := range replicas {
		group.Go(func() {
			var err error
			replicas[i], err = ca.OpenContext(t.Context(), ca.Options{Store: kubeca.NewStore(c.CoreV1(), "istio-system"), DataDir: t.TempDir()})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	agree := func(when string, roots int) {
		t.Helper()
		for _, r := range replicas {
			if _, err := r.ReloadContext(t.Context()); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			if !bytes.Equal(r.BundlePEM(), replicas[0].BundlePEM()) || len(r.Bundle()) != roots {
				t.Errorf("%s: the replicas do not agree", when)
			}
		}
	}
	agree("at the start", 1)
	first := replicas[0].Bundle()[0]

	steps := make([]error, 6)
	for i := range steps {
		group.Go(func() { _, steps[i] = ca.Rotation{Store: store}.Advance(t.Context(), false) })
	}
	group.Wait()
	taken := 0
	for _, err := range steps {
		var early *ca.TooEarly
		switch {
		case err == nil:
			taken++
		case errors.Is(err, ca.ErrConflict), errors.As(err, &early):
		default:
			t.Error(err)
		}
	}
	if taken != 1 {
		t.Errorf("%d commands took the step", taken)
	}
	agree("next trusted", 2)
	later := ca.Rotation{Store: store, Now: func() time.Time { return time.Now().Add(15 * time.Hour) }}
	if _, err := later.Advance(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	agree("next signs", 2)
	if replicas[0].Bundle()[0].Equal(first) {
		t.Error("the old root signs")
	}
	later.Now = func() time.Time { return time.Now().Add(45 * time.Hour) }
	if _, err := later.Advance(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	agree("old dropped", 1)

	if err := c.CoreV1().Secrets("istio-system").Delete(t.Context(), kubeca.OwnSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := replicas[0].ReloadContext(t.Context()); err == nil || len(replicas[0].Bundle()) != 1 {
		t.Errorf("with the Secret gone: %v", err)
	}
}
