package translate_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
)

// TestLeavingAgreesWithProxies is TestDecideAgreesWithProxies in worlds with routes at egress Gateways of the Gateway API.
func TestLeavingAgreesWithProxies(t *testing.T) {
	n := *worlds / 2
	if registrytest.Raced || testing.Short() {
		n = max(n/10, 2)
	}
	d := newDecoder()
	allowed := 0
	try := func(r *rand.Rand, e *envoys) tried {
		x := someTry(r, registrytest.Namespaces)
		x.Host, x.Port = strings.Replace(one(r, registrytest.LeavingHosts), "*.", one(r, []string{"q.", "in."}), 1), one(r, []uint32{80, 80, 443, 443, 8080})
		if r.IntN(2) == 0 {
			x.Scheme = map[uint32]policy.Scheme{80: policy.HTTP, 8080: policy.HTTP, 443: policy.HTTPS}[x.Port]
		}
		if v := policy.Decide(e.snapshot, x.from, x.Destination); v.Allowed && v.Service != nil && (v.Service.Source.Kind == config.KindHTTPRoute || v.Service.Source.Kind == config.KindTLSRoute) {
			allowed++
		}
		return x.inSomeCase(r)
	}
	for seed := *firstWorld; seed < *firstWorld+n; seed++ {
		made, settings := registrytest.Mesh(seed)
		made.Leaving()
		made.Accepted(func(o config.Object) bool { return !admission.Refused(admission.Validate(o)) })
		holdAgreementIn(t, d, seed, world{objects: made.Objects, mesh: settings}, try, disagree)
	}
	if allowed == 0 {
		t.Error("nothing leaves by a route")
	}
}
