package translate_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
)

var (
	firstWorld = flag.Uint64("seed", 0, "the first world of TestDecideAgreesWithProxies")
	worlds     = flag.Uint64("worlds", 100, "how many worlds it makes")
)

// triesEach is how much is tried in a world.
const triesEach = 250

// TestDecideAgreesWithProxies holds, in random worlds, what policy decides of random requests against what the proxies that are
// programmed do with them, as package interpret reads Envoy's resources. TestExplainAgreesWithEnvoy in e2e asks real ones.
func TestDecideAgreesWithProxies(t *testing.T) {
	n, last := *worlds, *firstWorld+*worlds
	if raceDetected || testing.Short() {
		n /= 10
		last = *firstWorld + n
	}
	d := newDecoder()
	for seed := *firstWorld; seed < last; seed++ {
		holdAgreement(t, d, seed)
	}
}

func FuzzDecideAgreesWithProxies(f *testing.F) {
	f.Add(uint64(8))
	f.Add(uint64(132))
	f.Fuzz(func(t *testing.T, seed uint64) { holdAgreement(t, newDecoder(), seed) })
}

func holdAgreement(t *testing.T, d *decoder, seed uint64) {
	t.Helper()
	w := randomWorld(seed)
	e := w.envoys(d)
	r := rand.New(rand.NewPCG(seed, 99))
	for range triesEach {
		if found, differ := disagree(e, w, randomTry(r)); differ {
			found.shrink().report(t, seed)
			return
		}
	}
}

// disagree tries a request both ways.
func disagree(e *envoys, w world, x tried) (disagreement, bool) {
	want := decided(policy.Decide(e.snapshot, x.from, x.Destination))
	got, steps, err := e.happens(x)
	if errors.Is(err, errNoName) {
		return disagreement{}, false
	}
	return disagreement{w, x, want, got, steps, err}, err != nil || got != want
}

func randomWorld(seed uint64) world {
	made := registrytest.NewWorld(seed)
	for range 40 {
		made.Change()
	}
	made.Accepted(func(o config.Object) bool { return !admission.Refused(admission.Validate(o)) })
	settings := mesh.Default()
	if seed%2 == 0 {
		settings.Exports = mesh.IstioExports()
	}
	settings.OutboundAllowAny = seed%3 != 0
	settings.OutboundDynamicDNS = seed%6 == 1
	return world{made.Objects, settings}
}

var triedHosts = []string{
	"a.example", "b.example", "x.example", "y.b.example", "x.b.example", "h-71.example", "h-159.example", "c.test", "nobody.test",
	"web.default", "web", "other.default", "pods.istio-system", "p-0.pods.istio-system", "db-0.web.default", "web.default.svc.cluster.local",
	"istio-egressgateway.istio-system.svc.cluster.local", "localhost", "example",
}

func randomTry(r *rand.Rand) tried {
	x := tried{from: policy.Workload{Namespace: one(r, registrytest.Namespaces), Name: "app"}, chance: r.Uint64()}
	if r.IntN(2) == 0 {
		x.from.Labels = map[string]string{"istio": "app"}
	}
	x.Scheme = one(r, []policy.Scheme{policy.HTTP, policy.HTTPS, policy.TLS, policy.TCP})
	x.Port = one(r, []uint32{80, 443, 5432, 9000, 8080, 3306})
	x.Host = one(r, triedHosts)
	if r.IntN(3) == 0 {
		x.Host = one(r, []string{"203.0.113.7", "203.0.113.8", "10.0.0.9", "240.240.0.9", "203.0.113.65", "203.0.113.97", "10.4.0.5", "192.0.2.4", "192.0.2.99"})
	}
	x.as = x.Host
	if r.IntN(4) == 0 {
		x.as = strings.ToUpper(x.Host)
	}
	return x
}

func one[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }
