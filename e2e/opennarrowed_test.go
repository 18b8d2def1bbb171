package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// narrowing is a way by which a host is not registered for a workload any more.
type narrowing int

const (
	removed  narrowing = iota // its entry is taken away
	exported                  // its entry is exported to others alone
	sidecars                  // a Sidecar names others
)

// narrowed: what is not registered for a workload any more ends, where what nobody registered may not leave, and what else is registered goes on. write writes a host's entry again, and opened opens what is
// talked on with a host.
func (o *openStraight) narrowed(t *testing.T, by narrowing, write func(t *testing.T, exportTo string), host string, opened func(host string) []*talk, other string) {
	t.Helper()
	gone, stay := opened(host), append(slices.Clone(o.beside), opened(other)...)
	for began := time.Now(); time.Since(began) < toldLate; { // what has just begun is asked about because of changes before
		o.goOn(t, slices.Concat(gone, stay))
	}
	before, since := o.ended(t), time.Now()
	switch by {
	case removed:
		o.remove(t, "open-"+host[:len(host)-len(".open.test")]+".yaml")
	case exported:
		write(t, "elsewhere")
	case sidecars:
		text := fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: narrow, namespace: %s}\nspec: {egress: [{hosts: ['*/%s', 'istio-system/*']}]}\n", o.namespace, other)
		if err := o.scene.Config.Write("narrow.yaml", text); err != nil {
			t.Fatal(err)
		}
	}
	o.end(t, since, gone, stay)
	o.onwards(t, stay)
	if now := o.ended(t); now != before+float64(len(gone)) {
		t.Errorf("%v were ended, want %d", now-before, len(gone))
	}
	if by == sidecars {
		o.remove(t, "narrow.yaml")
		return
	}
	write(t, "")
}

func (o *openStraight) remove(t *testing.T, file string) {
	t.Helper()
	if err := o.scene.Config.Remove(file); err != nil {
		t.Fatal(err)
	}
}
