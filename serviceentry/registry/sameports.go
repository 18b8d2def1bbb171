package registry

import "slices"

// portsKey is what a list of ports is known again by; longer ones are not.
type portsKey [4]Port

// keptPorts is how many lists of ports are known again.
const keptPorts = 1 << 10

// samePorts gives of equal lists of ports one, mostly: of many thousand hosts most have the same, which are a third of what is kept of such a host.
func (r *Registry) samePorts(ports []Port) []Port {
	var key portsKey
	if len(ports) == 0 || len(ports) > len(key) {
		return ports
	}
	copy(key[:], ports)
	known, ok := r.ports[key]
	if !ok || len(known) != len(ports) {
		if len(r.ports) >= keptPorts {
			clear(r.ports)
		}
		known = slices.Clip(slices.Clone(ports))
		r.ports[key] = known
	}
	return known
}
