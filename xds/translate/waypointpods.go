package translate

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/translate/outbound"
	"github.com/sallyport/sallyport/xds/translate/waypoint"
)

// podAt begins, among the hosts of nodes and of waypoints, the own addresses of pods that have a waypoint.
const podAt = "@"

// frontsPods says whether proxies of the class have something for these.
func (c Class) frontsPods() bool { return c.Kind == Ambient || c.Kind == Waypoint }

func podsAt(addresses []string) []string {
	out := make([]string, len(addresses))
	for i, a := range addresses {
		out[i] = podAt + a
	}
	return out
}

// Leave is the change by which hosts, or pods, of a view go that have stayed in it (UpdateBut).
func Leave(hosts []string) (out registry.Changed) {
	for _, host := range hosts {
		if address, is := strings.CutPrefix(host, podAt); is {
			out.Pods = append(out.Pods, address)
		} else {
			out.Hosts = append(out.Hosts, host)
		}
	}
	slices.Sort(out.Pods)
	slices.Sort(out.Hosts)
	return out
}

// addressAt reads one; the zero address of what is none.
func addressAt(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a
}

// podInputsOf are those of a pod's own address; nil where no waypoint stands before it.
func podInputsOf(s *registry.Snapshot, c Class, address netip.Addr) hostInputs {
	if c.Kind == Waypoint {
		if pod, before, asked := c.waypoint(s).AskedByPod(address); asked {
			return waypoint.Pod{Key: pod, Address: address, Before: before}
		}
		return nil
	}
	front, fronted := c.sidecar(s).PodFronted(address)
	if c.Kind != Ambient || !fronted {
		return nil
	}
	policy := c.sidecar(s).OutboundPolicy()
	return outbound.Pod{FrontedPod: front, Policy: resolve.OutboundPolicy{AllowAny: policy.AllowAny, By: policy.By}}
}
