package controlplane

import (
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// exits finds pods of egress gateways that take traffic and are connected to no replica: what they keep, nobody knows. Only the API server's word
// counts, for which pods there are, and those of gateways for which their own namespace, or the root namespace, can speak.
type exits struct {
	snapshot  *registry.Snapshot
	connected map[netip.Addr]bool
	known     *inventory
	found     map[string]string // what was found, by the namespace of policies
	shared    string            // what was found of gateways that stand for everybody
}

// newExits is given the addresses of the gateways' pods that are connected to any replica.
func (p *plane) newExits(s *registry.Snapshot, connected []string) *exits {
	e := &exits{snapshot: s, connected: map[netip.Addr]bool{}, known: p.known, found: map[string]string{}}
	for _, text := range connected {
		if addr, err := netip.ParseAddr(text); err == nil {
			e.connected[addr.Unmap()] = true
		}
	}
	for _, ref := range s.SharedExits() {
		if e.shared = e.missing(ref); e.shared != "" {
			break
		}
	}
	return e
}

// absent is the first such pod by which workloads of a namespace may leave; "" where there is none.
func (e *exits) absent(namespace string) string {
	if e.shared != "" {
		return e.shared
	}
	who, known := e.found[namespace]
	if !known {
		for _, ref := range e.snapshot.ExitsIn(namespace) {
			if who = e.missing(ref); who != "" {
				break
			}
		}
		e.found[namespace] = who
	}
	return who
}

// missing is the first of one gateway.
func (e *exits) missing(ref registry.Ref) string {
	svc := e.snapshot.GatewayService(ref)
	if svc == nil {
		return ""
	}
	for _, end := range e.snapshot.EndpointsOf(svc) {
		addr, err := netip.ParseAddr(end.Address)
		if err == nil && end.Cluster == "" && !e.isConnected(addr.Unmap()) { // another cluster's have a control plane of their own
			return fmt.Sprintf("%s of %s", end.Address, ref)
		}
	}
	return ""
}

// isConnected says whether the pod at an address is: a pod may have several, and its proxy says one of them.
func (e *exits) isConnected(addr netip.Addr) bool {
	if e.connected[addr] {
		return true
	}
	for _, other := range addressesOf(e.known.podAt(addr)) {
		if e.connected[other] {
			return true
		}
	}
	return false
}
