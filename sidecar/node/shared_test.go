package node

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"
)

// TestRestingFolder: what is known of pods is looked at now and then, and nothing is read of a folder that rests, however many pods there are.
func TestRestingFolder(t *testing.T) {
	const pods = 50
	p, err := New(Config{Log: slog.New(slog.DiscardHandler), Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	write := func(i int) Local {
		t.Helper()
		l := Local{Namespace: "shop", Name: fmt.Sprintf("cart-%d", i), Network: "/n"}
		if err := p.write(l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	rests := func() {
		t.Helper()
		if err := os.Chtimes(p.path("pods"), time.Time{}, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pods {
		write(i)
	}
	rests()
	if !p.readPods() || len(p.local) != pods {
		t.Fatalf("%d pods are known, of %d", len(p.local), pods)
	}
	if n := testing.AllocsPerRun(10, func() { p.readPods() }); n > pods {
		t.Errorf("a look at a folder that rests takes %.0f allocations", n)
	}
	next := write(pods)
	if !p.readPods() || p.local[next.Key()] != next {
		t.Error("a pod that came is not seen")
	}
	if err := os.Remove(p.file(next)); err != nil {
		t.Fatal(err)
	}
	if !p.readPods() || len(p.local) != pods {
		t.Error("a pod that went is not seen")
	}
	if err := os.WriteFile(p.file(next), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	rests()
	p.readPods()
	if err := os.WriteFile(p.file(next), []byte(`{"namespace":"shop","name":"cart-50","network":"/n"}`), 0o600); err != nil { // the folder's time stays
		t.Fatal(err)
	}
	if !p.readPods() {
		t.Error("what could not be read is not tried again")
	}
}
