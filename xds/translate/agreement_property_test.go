package translate_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

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
	if registrytest.Raced || testing.Short() {
		n /= 10
		last = *firstWorld + n
	}
	d := newDecoder()
	for seed := *firstWorld; seed < last; seed++ {
		holdAgreement(t, d, seed, disagree)
	}
}

// TestForwardAgreesWithProxies is the same for the forward proxy of `sallyport up`, on behalf of each namespace.
func TestForwardAgreesWithProxies(t *testing.T) {
	d := newDecoder()
	for seed := *firstWorld; seed < *firstWorld+max(*worlds/5, 2); seed++ {
		holdAgreement(t, d, seed, disagreeForward)
	}
}

func disagreeForward(e *envoys, w world, x tried) (disagreement, bool) {
	want := decided(policy.DecideForward(e.snapshot, x.from.Namespace, x.Destination))
	got, steps, err := e.forwarded(x)
	return disagreement{w, x, want, got, steps, err}, err != nil || got != want
}

func FuzzDecideAgreesWithProxies(f *testing.F) {
	f.Add(uint64(8))
	f.Add(uint64(132))
	f.Fuzz(func(t *testing.T, seed uint64) { holdAgreement(t, newDecoder(), seed, disagree) })
}

// holdAgreement tries requests of one world until one finds a disagreement.
func holdAgreement(t *testing.T, d *decoder, seed uint64, disagree func(*envoys, world, tried) (disagreement, bool)) {
	t.Helper()
	w, try := randomWorld(seed)
	holdAgreementIn(t, d, seed, w, try, disagree)
}

func holdAgreementIn(t *testing.T, d *decoder, seed uint64, w world, try func(*rand.Rand, *envoys) tried, disagree func(*envoys, world, tried) (disagreement, bool)) {
	t.Helper()
	e := w.envoys(d)
	r := rand.New(rand.NewPCG(seed, 99))
	for range triesEach {
		if found, differ := disagree(e, w, try(r, e)); differ {
			found.shrink(disagree).report(t, seed)
			return
		}
	}
}

// disagree tries a request both ways.
func disagree(e *envoys, w world, x tried) (disagreement, bool) {
	want := decided(policy.Decide(e.snapshot, x.from, x.Destination))
	got, steps, err := e.happens(x)
	if errors.Is(err, errNoName) || errors.Is(err, errSilent) {
		return disagreement{}, false
	}
	return disagreement{w, x, want, got, steps, err}, err != nil || got != want
}

// randomWorld is a mesh as users have one, or, at times, a heap of objects.
func randomWorld(seed uint64) (world, func(*rand.Rand, *envoys) tried) {
	made, settings, try := randomObjects(seed)
	settings.Audit.Mesh = mesh.MeshAll // so that the log says which Service it was
	w := world{objects: made.Objects, mesh: settings}
	if seed%3 == 0 {
		w.rows = 1 // of what is led by patterns hardly anything counts
	}
	return w, try
}

func randomObjects(seed uint64) (made *registrytest.World, settings mesh.Config, try func(*rand.Rand, *envoys) tried) {
	accepted := func(o config.Object) bool { return !admission.Refused(admission.Validate(o)) }
	if seed%4 > 0 {
		made, settings = registrytest.Mesh(seed)
		if seed%16 > 1 { // objects may be older than the rules that they break
			made.Accepted(accepted)
		}
		return made, settings, meshTry
	}
	made = registrytest.NewWorld(seed)
	for range 40 {
		made.Change()
	}
	made.Accepted(accepted)
	settings = mesh.Default()
	if seed%8 == 0 {
		settings.Exports = mesh.IstioExports()
	}
	settings.OutboundAllowAny = seed%3 != 0
	return made, settings, heapTry
}

// heapTry tries what is in a registrytest.World.
func heapTry(r *rand.Rand, _ *envoys) tried {
	x := someTry(r, registrytest.Namespaces)
	x.Port = one(r, []uint32{80, 443, 5432, 9000, 8080, 3306})
	x.Host = one(r, []string{
		"a.example", "b.example", "x.example", "y.b.example", "x.b.example", "h-71.example", "h-159.example", "c.test", "nobody.test",
		"web.default", "web", "other.default", "pods.istio-system", "p-0.pods.istio-system", "db-0.web.default", "web.default.svc.cluster.local",
		"istio-egressgateway.istio-system.svc.cluster.local", "localhost", "example",
	})
	if r.IntN(3) == 0 {
		x.Host = one(r, []string{"203.0.113.7", "203.0.113.8", "10.0.0.9", "240.240.0.9", "203.0.113.65", "203.0.113.97", "10.4.0.5", "192.0.2.4", "192.0.2.99"})
	}
	return x.inSomeCase(r)
}

// meshTry tries what is in a registrytest.Mesh, and what is beside it.
func meshTry(r *rand.Rand, e *envoys) tried {
	x := someTry(r, append([]string{"store", "lone"}, registrytest.Namespaces...))
	x.Port = one(r, []uint32{80, 80, 443, 443, 443, 5432, 9000, 8080, 3306, 7777, 53, 9999, 15001, 15006})
	switch name := strings.ToLower(one(r, registrytest.MeshHosts)); r.IntN(12) {
	case 8:
		x.Host = serviceName(r, e)
	case 9, 10, 11:
		x.Host, x.Port = routedName(r, e), one(r, []uint32{80, 80, 443, 8080, 5432})
		if r.IntN(2) == 0 {
			x.Scheme = policy.HTTP
		}
	case 0:
		x.Host = one(r, []string{
			"web", "web.store", "web.default.svc", "db", "db.store", "db-0.db.store", "db-0.db.store.svc.cluster.local", "api.team-a", "api.team-b.svc.cluster.local", "nobody.test.example.org",
			"istio-egressgateway.istio-system", "own-gateway.team-a.svc.cluster.local", "localhost", "no.such.svc.cluster.local", "single",
		})
	case 1, 2:
		x.Host = addressIn(r, one(r, registrytest.MeshAddresses))
	case 3:
		x.Host = one(r, []string{"10.4.0.5", "10.4.1.12", "192.0.2.4", "10.96.0.2", "10.96.0.7", "240.240.1.1", "198.51.100.9", "2001:db8:ffff::1"})
		if all := e.snapshot.Services(name); len(all) > 0 && all[0].MadeUp != 0 { // by its made-up address
			x.Host = one(r, []netip.Addr{all[0].VIP4(), all[0].VIP6()}).String()
		}
	case 4:
		x.Host = "q." + strings.TrimPrefix(name, "*.")
	default:
		x.Host = strings.Replace(name, "*.", one(r, []string{"q.", "q.q.", "x."}), 1)
	}
	return x.inSomeCase(r)
}

// serviceName is a name of one of the world's Services, or of a pod behind it.
func serviceName(r *rand.Rand, e *envoys) string {
	var all []config.Key
	for _, key := range (world{objects: e.objects}).keys() {
		if key.Kind == config.KindService {
			all = append(all, key)
		}
	}
	if len(all) == 0 {
		return "nobody"
	}
	key := one(r, all)
	return one(r, []string{"", "", "", "p-0."}) + one(r, []string{key.Name, key.Name + "." + key.Namespace, key.Name + "." + key.Namespace + ".svc", key.Name + "." + key.Namespace + ".svc.cluster.local"})
}

// routedName is a name that a user wrote routes for.
func routedName(r *rand.Rand, e *envoys) string {
	all := []string{"a.test", one(r, registrytest.RoutedHosts)}
	for _, key := range (world{objects: e.objects}).keys() {
		if v, ok := e.objects[key].Spec.(*networking.VirtualService); ok {
			all = append(all, v.Hosts...)
		}
	}
	return strings.ToLower(strings.Replace(one(r, all), "*.", "q.", 1))
}

// addressIn is an address, or one in a range.
func addressIn(r *rand.Rand, text string) string {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return text
	}
	a := p.Addr()
	for range r.IntN(20) {
		a = a.Next()
	}
	return a.String()
}

// someTry is who tries, and how.
func someTry(r *rand.Rand, namespaces []string) tried {
	x := tried{from: policy.Workload{Namespace: one(r, namespaces), Name: "app"}, chance: r.Uint64()}
	if r.IntN(2) == 0 {
		x.from.Labels = map[string]string{"istio": "app"}
	}
	x.Scheme = one(r, []policy.Scheme{policy.HTTP, policy.HTTPS, policy.TLS, policy.TCP})
	x.upgrade = r.IntN(8) == 0
	if x.Scheme == policy.HTTP && r.IntN(2) == 0 {
		x.Method, x.Path = one(r, []string{"", "POST"}), one(r, []string{"", "/api", "/api/x", "/b?q=1", "/a"})
	}
	return x
}

func (x tried) inSomeCase(r *rand.Rand) tried {
	x.as = x.Host
	if r.IntN(4) == 0 {
		x.as = strings.ToUpper(x.Host)
	}
	return x
}

func one[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }
