package relay

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/wire"
)

// TestTemplatesWaitForTables: what leads to a port's table is opened when Envoy has the table, and not when it has the scope alone.
func TestTemplatesWaitForTables(t *testing.T) {
	n := newNameBench(t)
	n.subscribe(ScopeType)
	n.subscribe(RouteType, "80")
	n.controllerSays(ScopeType, "s1", nil, res("80", "1"))
	n.controllerSays(RouteType, "r1", nil, res("80", "1"))
	n.controllerSays(VirtualHost, "v1", nil, res("80/old", "1"))
	for _, url := range []string{ScopeType, RouteType, VirtualHost} {
		n.ack(url)
	}
	n.controllerSays(ScopeType, "s2", nil, res("443", "1"))
	n.controllerSays(names, "n1", nil, res("leads to 443", "1"))
	n.ack(ScopeType)
	n.answers("Envoy has no table", "old@1")
	n.subscribe(RouteType, "443")
	n.controllerSays(VirtualHost, "v2", nil, res("443/a", "1"))
	n.ack(VirtualHost)
	n.controllerSays(RouteType, "r2", nil, res("443", "1"))
	n.answers("Envoy has said nothing about it", "old@1")
	n.ack(RouteType)
	n.answers("its rows came too early", "old@1")
	n.controllerSays(VirtualHost, "v3", nil, res("443/a", "1"))
	n.answers("Envoy has said nothing about them", "old@1")
	n.ack(VirtualHost)
	n.answers("it has all", "leads to 443@1", "old@1")
}

// TestScopesAreLeftOpen: what is open to a port of which nothing is known any more goes on as what is new does, instead of being answered by nobody.
func TestScopesAreLeftOpen(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.subscribe(ScopeType)
	b.controllerOpen()
	b.controllerSays(ScopeType, "s1", nil, res("80", "1"), res(wire.CatchAllDecide, "1"))
	b.want("to Envoy", b.sent(), []string{"+80@1 +decide-any@1"})
	b.ack(ScopeType)
	b.told()
	b.controllerSays(ScopeType, "s2", []string{"80"})
	if len(b.toEnvoy) != 1 || len(b.toEnvoy[0].GetResources()) != 1 {
		t.Fatalf("Envoy is told %v", b.toEnvoy)
	}
	var got routev3.ScopedRouteConfiguration
	if err := proto.Unmarshal(b.toEnvoy[0].GetResources()[0].GetResource().GetValue(), &got); err != nil {
		t.Fatal(err)
	}
	want := &routev3.ScopedRouteConfiguration{Name: "80", RouteConfigurationName: wire.CatchAllDecide, Key: &routev3.ScopedRouteConfiguration_Key{
		Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: "80"}}},
	}}
	if !proto.Equal(&got, want) {
		t.Errorf("got %v", &got)
	}
	b.want("nothing is taken away", b.sent(), []string{"+80@left open"})
	b.ack(ScopeType)
	b.want("the controller hears that it is gone", b.told(), []string{"ScopedRouteConfiguration ack s2"})
	b.want("and it is not kept", b.kept(ScopeType), "decide-any@1")
	b.controllerSays(ScopeType, "s3", nil, res("80", "2"))
	b.want("it comes back", b.sent(), []string{"+80@2"})
	b.ack(ScopeType)
	b.want("kept", b.kept(ScopeType), "80@2 decide-any@1")
	// an Envoy that says itself what it has
	b.envoyGone()
	b.envoyRequest(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ScopeType, InitialResourceVersions: map[string]string{"443": leftOpen}})
	b.want("what was left open is no reason to wait", b.lacksTable(), false)
}
