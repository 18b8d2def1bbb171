package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
)

// checkRulePorts warns of settings for a port that none of a rule's hosts has, and of TLS in them, without which the ports that there are are spoken to.
func (w *world) checkRulePorts(r *report, n host.Name, field string, settings []*networking.TrafficPolicy_PortTrafficPolicy) {
	if len(settings) == 0 {
		return
	}
	has, targets := w.portsOf(n)
	if len(has) == 0 {
		return
	}
	for i, s := range settings {
		port := s.GetPort().GetNumber()
		if has[port] || port < 1 || port > 65535 { // what is no port is said by Validate
			continue
		}
		message := fmt.Sprintf("%s has no such port, so these settings have no effect", n)
		if s.GetTls() != nil && s.Tls.Mode != networking.ClientTLSSettings_DISABLE {
			message += ", and nothing is sent with the TLS that they ask for"
		}
		fix := "write one of its ports: " + join(slices.Sorted(maps.Keys(has)))
		if named := targets[port]; len(named) > 0 {
			fix = fmt.Sprintf("ports are those that clients connect to: write %s, whose targetPort it is", join(named))
		}
		r.warn(at(field, "portLevelSettings", i, "port.number"), port, message, fix)
	}
}

// portsOf are the ports of the hosts that a rule's host covers, and those that have one as targetPort, by it.
func (w *world) portsOf(n host.Name) (has map[uint32]bool, targets map[uint32][]uint32) {
	has, targets = map[uint32]bool{}, map[uint32][]uint32{}
	note := func(port, target uint32) {
		has[port] = true
		if target != 0 && target != port && !slices.Contains(targets[target], port) {
			targets[target] = append(targets[target], port)
			slices.Sort(targets[target])
		}
	}
	of := func(h host.Name) {
		for p := range w.portsRegistered(h) {
			note(p.number, p.target)
		}
	}
	of(n)
	for _, h := range w.wildcards {
		if h != n && host.Matches(h, n) {
			of(h)
		}
	}
	if !n.IsWildcard() {
		return has, targets
	}
	for h := range w.hosts {
		if h != n && host.Matches(n, h) {
			of(h)
		}
	}
	for h := range w.specs {
		if h != n && w.hosts[h] == nil && host.Matches(n, h) {
			of(h)
		}
	}
	return has, targets
}

func join(ports []uint32) string {
	texts := make([]string, len(ports))
	for i, p := range ports {
		texts[i] = fmt.Sprint(p)
	}
	return strings.Join(texts, ", ")
}
