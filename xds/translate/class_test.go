package translate_test

import (
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestWhoFetches: rows are fetched on use where the mesh says so, or the workload, and the agent can.
func TestWhoFetches(t *testing.T) {
	for _, c := range []struct {
		mesh, agent string
		inline      bool
		want        bool
	}{
		{mesh.All, ondemand.FetchAsMesh, false, false}, {mesh.OnUse, ondemand.FetchAsMesh, false, true},
		{mesh.All, ondemand.OnUse, false, true}, {mesh.OnUse, ondemand.All, false, false},
		{mesh.OnUse, "", false, false}, {mesh.OnUse, "whatever comes later", false, false},
		{mesh.OnUse, ondemand.OnUse, true, false},
	} {
		settings := mesh.Default()
		settings.Fetch = c.mesh
		node := translate.Node{ID: "sidecar~10.0.0.1~app.default~default.svc.cluster.local", Namespace: "default", Fetch: c.agent, Inline: c.inline}
		if got := translate.Classify(registry.New(&settings).Snapshot(), node).Fetch; got != c.want {
			t.Errorf("the mesh says %q, the agent %q, tables list their hosts: %t; fetched: %t", c.mesh, c.agent, c.inline, got)
		}
	}
	gateway := translate.Node{ID: "router~10.0.0.1~egress.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", Fetch: ondemand.OnUse}
	settings := mesh.Default()
	settings.Fetch = mesh.OnUse
	if translate.Classify(registry.New(&settings).Snapshot(), gateway).Fetch {
		t.Error("the rows of a gateway whose agent does not say that it can are fetched on use")
	}
	gateway.FetchExit = true
	for _, c := range []struct {
		mesh, agent string
		want        bool
	}{{mesh.All, ondemand.FetchAsMesh, false}, {mesh.OnUse, ondemand.FetchAsMesh, true}, {mesh.OnUse, ondemand.All, false}, {mesh.All, ondemand.OnUse, true}} {
		settings.Fetch, settings.FetchGateways, gateway.Fetch = mesh.OnUse, c.mesh, c.agent
		if got := translate.Classify(registry.New(&settings).Snapshot(), gateway).Fetch; got != c.want {
			t.Errorf("of gateways the mesh says %q, the agent %q; fetched: %t", c.mesh, c.agent, got)
		}
	}
}
