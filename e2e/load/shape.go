package load

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// The shapes of a mesh: what there is many of, of which one changes.
const (
	ShapeEntries   = "entries"   // ServiceEntries, for sidecars
	ShapeEndpoints = "endpoints" // Services with endpoints, for sidecars
	ShapeRoutes    = "routes"    // HTTPRoutes at one Gateway, for its pods
	ShapeFetched   = "fetched"   // ServiceEntries, for sidecars that hold what they use (sallyport.fetch: onUse)
	ShapePolicies  = "policies"  // EgressPolicies, for the egress gateway's pods
	// ShapeAuthorization is of Services with endpoints and AuthorizationPolicies, each of which selects the pods of one app.
	ShapeAuthorization = "authorization"
	// ShapeCertificates is of names at one Gateway, each with a certificate of its own, for its pods.
	ShapeCertificates = "certificates"
	// ShapeServers is the same by servers of Istio's Gateways, and VirtualServices.
	ShapeServers = "servers"
)

// shape is one of them.
type shape struct {
	name, noun string
	goals      []goal
	write      func(m mesh, o Options) error
	node       func(i int) *core.Node // of the proxies that are programmed
	steps      func(m mesh, round int) []step
	closes     bool // half of the changes are made with REGISTRY_ONLY, which all proxies are told
	small      int  // up to how many there are goals' first limits hold
	policed    bool // what filters do is asked for by name by all
	rests      bool // memory is looked at once more when nothing has happened for Options.Rest
	markers
}

var shapes = []shape{
	{ShapeEntries, "entries", goals, mesh.writeEntries, sidecar, mesh.entrySteps, true, 1000, false, false, kept("figures")},
	{ShapeEndpoints, "Services of ten endpoints", changeGoals("one endpoint", 2, 10, 150), mesh.writeServices, sidecar, mesh.endpointSteps, false, 1000, false, false, kept("endpoints")},
	{ShapeRoutes, "HTTPRoutes", changeGoals("one HTTPRoute", 8, 50, 250), mesh.writeRoutes, ingress, mesh.routeSteps, false, 1000, false, false, kept("routes")},
	{ShapeFetched, "entries fetched on use", fetchedGoals, mesh.writeFetched, fetching, mesh.fetchedSteps, false, 10_000, false, true, kept("fetched")},
	{ShapePolicies, "EgressPolicies about ten hosts each", changeGoals("one EgressPolicy", 64, 60, 300), mesh.writePolicies, exits, mesh.policySteps, false, 1000, false, false, kept("policies")},
	{ShapeAuthorization, "Services and AuthorizationPolicies", authorizationGoals, mesh.writeAuthorization, sidecar, mesh.authorizationSteps, false, 1000, true, false, kept("authorization")},
	{ShapeCertificates, "HTTPRoutes, each of a name with a certificate", changeGoals("one name, its certificate's place and its HTTPRoute", 8, 50, 250), mesh.writeCertificates, finding, mesh.certificateSteps, false, 1000, false, false, kept("certificates")},
	{ShapeServers, "servers of Istio's Gateways, each of a name with a certificate", changeGoals("one name, its certificate's place, its server and its VirtualService", 8, 50, 250), mesh.writeServers, findingOfIstio, mesh.serverSteps, false, 1000, false, false, kept("servers")},
}

// Shapes are their names.
func Shapes() (names []string) {
	for _, s := range shapes {
		names = append(names, s.name)
	}
	return names
}

// shapeOf finds one; "" is the first.
func shapeOf(name string) (shape, error) {
	i := slices.IndexFunc(shapes, func(s shape) bool { return s.name == cmp.Or(name, ShapeEntries) })
	if i < 0 {
		return shape{}, fmt.Errorf("-shape %q: want one of %s", name, strings.Join(Shapes(), ", "))
	}
	return shapes[i], nil
}

// changeGoals are what one change of something may cost: KiB to a proxy, milliseconds of the controller's CPU, and until the last proxy has it.
func changeGoals(what string, size, cpu, took float64) []goal {
	at := func(limit float64) [2]float64 { return [2]float64{limit, limit} }
	return []goal{
		{"bytes to a proxy for " + what, "KiB", at(size), Figures.changeKiB},
		{"controller CPU for it", "ms", at(cpu), func(f Figures) float64 { return milliseconds(f.ChangeCPU) }},
		{"file written → the last proxy has it, p99", "ms", at(took), func(f Figures) float64 { return milliseconds(f.P99) }},
	}
}
