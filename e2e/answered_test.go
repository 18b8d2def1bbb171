package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// answeredRounds is how many hosts are registered, one after the other, for each way to reach one.
const answeredRounds = 25

// TestAnsweredMeansReached: what a pod asks for in the moment in which its DNS first answers with a made-up address is
// served. Before, the name led to its own address, which the mesh lets through, so nobody notices the change.
func TestAnsweredMeansReached(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	addOther(ctx, t, s)
	app := appOf(s)
	ports := []uint16{80, 443, 7001}
	for i := range answeredRounds {
		ports = append(ports, freshPort(i))
	}
	polyglot{s.Outside.CA}.serve(t, s.World.Outside, otherAddr, ports)
	const exit = "istio-system/istio-egressgateway"
	for _, way := range []struct {
		name, scheme, protocol, gateway string
		port                            func(i int) uint16
		peer                            netip.Addr
	}{
		{"requests", "http", "HTTP", exit, func(int) uint16 { return 80 }, world.GatewayAddr},
		{"TLS", "https", "TLS", exit, func(int) uint16 { return 443 }, world.GatewayAddr},
		{"TCP", "tcp", "TCP", exit, func(int) uint16 { return 7001 }, world.GatewayAddr},
		{"requests at a port that is new", "http", "HTTP", exit, freshPort, world.GatewayAddr},
		{"requests straight", "http", "HTTP", "direct", func(int) uint16 { return 80 }, world.AppAddr},
		{"TLS straight", "https", "TLS", "direct", func(int) uint16 { return 443 }, world.AppAddr},
	} {
		t.Run(way.name, func(t *testing.T) {
			label := strings.ToLower(strings.ReplaceAll(way.name, " ", "-"))
			for i := range answeredRounds {
				host, port := fmt.Sprintf("%s-%d.fresh.test", label, i), way.port(i)
				s.Outside.Set(host, time.Minute, otherAddr)
				if err := s.Config.Write(host+".yaml", fmt.Sprintf(
					"apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: default, annotations: {egress.sallyport.io/gateway: %s}}\n"+
						"spec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: p, protocol: %s}]}\n",
					host, way.gateway, host, port, way.protocol)); err != nil {
					t.Fatal(err)
				}
				addr, err := app.answered(ctx, host)
				if err != nil {
					t.Fatal(err)
				}
				peer, err := app.at(addr).try(ctx, way.scheme, host, port, "/")
				if err != nil {
					t.Errorf("%s, in the moment in which it was answered: %v", host, err)
				} else if peer != way.peer {
					t.Errorf("%s was reached from %s, want %s", host, peer, way.peer)
				}
			}
		})
	}
}

// freshPort is one that only the host of that round is registered at.
func freshPort(i int) uint16 { return uint16(7100 + i) }

// answered asks, without a rest, until the pod's DNS has a made-up address for the host.
func (c caller) answered(ctx context.Context, host string) (addr netip.Addr, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for !madeUp.Contains(addr) {
		if addr, err = c.resolve(ctx, host); err != nil && ctx.Err() != nil {
			return addr, fmt.Errorf("%s has no made-up address: %w", host, err)
		}
	}
	return addr, nil
}
