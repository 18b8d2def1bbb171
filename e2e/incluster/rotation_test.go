package incluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// lifetime of certificates in TestRootRotation: the shortest.
const lifetime = time.Minute

// TestRootRotation: leaves are renewed and the root is exchanged under traffic, and no request fails. It waits a
// lifetime between two steps, so it must be asked for.
func TestRootRotation(t *testing.T) {
	if os.Getenv("SALLYPORT_LONG") == "" {
		t.Skip("takes five minutes: set SALLYPORT_LONG=1")
	}
	s := set(t, "controller.certTTL=1m")
	app := s.podIP(shop, "app")
	s.apply(entry(shop, "external", external))
	s.opens(app, external, "/")
	program, err := filepath.Abs("../../bin/sallyport")
	s.must(err)
	tr := s.begin(app)
	for _, step := range []string{"trust the next root", "sign with it", "trust the old one no more"} {
		out, err := s.run(t.Context(), program, "ca", "rotate", "--kubeconfig", s.Kubeconfig, "--cert-ttl", lifetime.String(), "--force")
		s.must(err)
		t.Logf("%s: %s", step, out)
		s.rest(lifetime + 15*time.Second)
	}
	s.end(tr)
}
