package admission

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/inside"
)

// workloadEntry checks an endpoint that is an object of its own. Which service it belongs to is not known, so an address
// may be an IP address or a name.
func (r *report) workloadEntry(e *networking.WorkloadEntry) {
	switch {
	case e.Address == "" && e.Network == "":
		r.reject("spec.address", nil, "it is missing", "write the workload's IP address or host name")
	case e.Address == "":
		r.warn("spec.address", nil, "without an address nothing is sent to the workload: no network's gateway is asked for it", "write the workload's IP address or host name")
	case strings.HasPrefix(e.Address, unixPrefix):
		r.unixPath("spec.address", e.Address)
		r.warn("spec.address", e.Address, "is a file of the proxy's own host, to which none connects, so nothing is sent to the workload", "write an address at which others reach it")
		if len(e.Ports) > 0 {
			r.reject("spec.ports", nil, "a Unix socket has no ports", "remove them")
		}
	case !isAddress(e.Address) && !r.otherForm("spec.address", e.Address):
		if _, err := host.ParseExact(e.Address); err != nil {
			r.hostError("spec.address", e.Address, err)
		}
	}
	if addr, is := host.Reachable(e.Address); is && inside.OwnHost(addr) || inside.OwnName(e.Address) {
		r.warn("spec.address", e.Address, "is the own host of each proxy, to which none connects, so nothing is sent to the workload", "write an address at which others reach it")
	}
	r.endpointPorts("spec.ports", e.Ports, nil)
	r.labels("spec.labels", e.Labels)
}

// endpointPorts checks an endpoint's ports by name; known are the service's, nil for any.
func (r *report) endpointPorts(field string, ports map[string]uint32, known map[string]string) {
	for _, name := range sortedKeys(ports) {
		where := strict.Join(field, name)
		r.port(where, ports[name])
		if _, has := known[name]; known != nil && !has {
			r.reject(where, ports[name], "spec.ports has no port of the name \""+name+"\"", "use the name of one of spec.ports")
		}
		if !isLabel(name) {
			r.reject(where, name, "is no port's name", "use letters, digits and hyphens, at most 63")
		}
	}
}
