package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// TestDialledTargetPort: who connects to an address of a host that is reached where its clients say gets to the port's target there, straight and by the gateway, as Istio has it.
func TestDialledTargetPort(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	addOther(ctx, t, s)
	const target = 2283
	serveRUOK(t, s.World.Outside, netip.AddrPortFrom(otherAddr, target))
	ports := map[string]uint16{"istio-system/istio-egressgateway": 2281, "direct": 2282}
	for gateway, port := range ports {
		if err := s.Config.Write(fmt.Sprint("dialled-", port, ".yaml"), fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: dialled-%d, namespace: default, annotations: {egress.sallyport.io/gateway: %s}}\n"+
			"spec: {hosts: [dialled-%[1]d.test], addresses: [%[3]s/32], location: MESH_EXTERNAL, resolution: NONE, ports: [{number: %[1]d, name: tcp, protocol: TCP, targetPort: %[4]d}]}\n", port, gateway, otherAddr, target)); err != nil {
			t.Fatal(err)
		}
	}
	for gateway, port := range ports {
		if err := world.Within(ctx, 2*time.Minute, func() error { return spoken(ctx, appOf(s), netip.AddrPortFrom(otherAddr, port), "ruok") }); err != nil {
			t.Errorf("%s: %v", gateway, err)
		}
	}
}
