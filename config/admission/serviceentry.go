package admission

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
)

// The bounds that Istio's CRD sets.
const (
	maxHosts     = 256
	maxAddresses = 256
	maxPorts     = 256
	maxEndpoints = 4096
)

// maxTold is how many endpoints, and names of certificates, proxies are told of for one entry: each of its own, for each host at each port. The bounds above allow 268 million, some ten gigabytes in the control plane and in
// the gateway that serves all.
const maxTold = 65_536

func (r *report) serviceEntry(s *networking.ServiceEntry) {
	r.entryHosts(s)
	r.entryAddresses(s)
	protocols := r.entryPorts(s.Ports)
	r.ownPorts(s.Ports)
	r.resolution(s, protocols)
	if len(s.Endpoints) > maxEndpoints {
		r.reject("spec.endpoints", len(s.Endpoints), "too many endpoints", fmt.Sprintf("write at most %d", maxEndpoints))
	}
	r.told("spec.endpoints", len(s.Endpoints), s)
	r.told("spec.subjectAltNames", len(s.SubjectAltNames), s)
	if sel := s.WorkloadSelector; sel != nil {
		if len(s.Endpoints) > 0 {
			r.reject("spec.workloadSelector", nil, "cannot be set together with spec.endpoints", "keep one of the two")
		}
		if s.Location == networking.ServiceEntry_MESH_EXTERNAL {
			r.warn("spec.workloadSelector", nil, "selects workloads of the mesh, but the host is MESH_EXTERNAL", "set spec.location to MESH_INTERNAL, or list spec.endpoints")
		}
		if len(sel.Labels) == 0 {
			r.warn("spec.workloadSelector.labels", nil, "selects no workload", "name the labels of the workloads that are meant")
		}
		r.selector("spec.workloadSelector.labels", sel.Labels)
	}
	r.exportTo("spec.exportTo", s.ExportTo)
	r.undistinguished(s, protocols)
}

// told rejects a list of an entry that comes to more than proxies are told.
func (r *report) told(field string, list int, s *networking.ServiceEntry) {
	if n := len(s.Hosts) * len(s.Ports) * list; n > maxTold {
		r.reject(field, list, fmt.Sprintf("proxies are told of each of them for each host at each port, %d times in all", n), fmt.Sprintf("write at most %d in all, and the rest into other ServiceEntries", maxTold))
	}
}

func (r *report) entryHosts(s *networking.ServiceEntry) {
	if len(s.Hosts) == 0 {
		r.reject("spec.hosts", nil, "there is no host", "name at least one")
	}
	if len(s.Hosts) > maxHosts {
		r.reject("spec.hosts", len(s.Hosts), "too many hosts", fmt.Sprintf("write at most %d, and the rest into another ServiceEntry", maxHosts))
	}
	seen := map[host.Name]bool{}
	for i, h := range s.Hosts {
		n, err := host.Parse(h)
		if host.Partial(h) {
			r.warn(at("spec.hosts", i), h, "a partial wildcard registers no host: \"*\" stands for the whole first label", "write it as in "+wholeLabel(h))
			continue
		}
		if err != nil {
			r.hostError(at("spec.hosts", i), h, err)
			continue
		}
		if seen[n] {
			r.warn(at("spec.hosts", i), h, "the host is there twice", "remove one")
		}
		seen[n] = true
		if n.IsWildcard() && strings.Count(string(n), ".") == 1 {
			r.warn(at("spec.hosts", i), h, "stands for every host of a top-level domain", `name the domain too, as in "*.example.com"`)
		}
	}
}

func (r *report) entryAddresses(s *networking.ServiceEntry) {
	if len(s.Addresses) > maxAddresses {
		r.reject("spec.addresses", len(s.Addresses), "too many addresses", fmt.Sprintf("write at most %d", maxAddresses))
	}
	fixed := s.Resolution == networking.ServiceEntry_NONE || s.Resolution == networking.ServiceEntry_STATIC
	for i, a := range s.Addresses {
		if r.prefix(at("spec.addresses", i), a) && !fixed {
			r.reject(at("spec.addresses", i), a, fmt.Sprintf("CIDR blocks cannot be combined with resolution %s", s.Resolution), "write single addresses, or set spec.resolution to NONE or STATIC")
		}
	}
}

// entryPorts returns the protocols of the ports by port name.
func (r *report) entryPorts(ports []*networking.ServicePort) map[string]string {
	if len(ports) == 0 {
		r.warn("spec.ports", nil, "without a port nothing can be reached", `add one, as in {number: 443, name: tls, protocol: TLS}`)
	}
	if len(ports) > maxPorts {
		r.reject("spec.ports", len(ports), "too many ports", fmt.Sprintf("write at most %d", maxPorts))
	}
	protocols, numbers := map[string]string{}, map[uint32]bool{}
	for i, p := range ports {
		r.port(at("spec.ports", i, "number"), p.Number)
		if p.Number != 0 && numbers[p.Number] {
			r.reject(at("spec.ports", i, "number"), p.Number, "the port is there twice", "write each port once")
		}
		numbers[p.Number] = true
		name := at("spec.ports", i, "name")
		if _, taken := protocols[p.Name]; taken && p.Name != "" {
			r.reject(name, p.Name, "the name is there twice", "give each port its own name")
		} else if p.Name == "" {
			r.reject(name, nil, "the port has no name", `give it one, as in "tls"`)
		} else if !isLabel(p.Name) {
			r.reject(name, p.Name, "is no port's name", "use letters, digits and hyphens, at most 63")
		}
		protocols[p.Name] = r.protocol(at("spec.ports", i, "protocol"), p.Protocol)
		if p.TargetPort != 0 {
			r.port(at("spec.ports", i, "targetPort"), p.TargetPort)
		}
	}
	return protocols
}

// undistinguished rejects several hosts on a port whose protocol carries no host name: there is no telling which
// of them a connection is meant for. With NONE the address decides.
func (r *report) undistinguished(s *networking.ServiceEntry, protocols map[string]string) {
	if s.Resolution == networking.ServiceEntry_NONE || len(s.Hosts) < 2 {
		return
	}
	for i, p := range s.Ports {
		if protocol := protocols[p.Name]; !isHTTP(protocol) && !isTLS(protocol) {
			r.reject(at("spec.ports", i, "protocol"), p.Protocol, "connections carry no host name, so the hosts cannot be told apart", "write one ServiceEntry for each host, or use an HTTP or TLS protocol")
			return
		}
	}
}

// ownPorts rejects what the proxy of each pod has for itself: a listener of a host's would be a second one there.
func (r *report) ownPorts(ports []*networking.ServicePort) {
	for i, p := range ports {
		if config.IsOwnPort(p.Number) {
			r.reject(at("spec.ports", i, "number"), p.Number, "is a port of the proxy in every pod, where no host can be reached",
				"register the host at another port; spec.ports[].targetPort may be this one")
		}
	}
}

// checkBoundPorts warns of a Service's ports that pods with a proxy cannot reach. The API server took them.
func checkBoundPorts(r *report, s *corev1.Service) {
	for i, p := range s.Spec.Ports {
		if config.IsBoundPort(uint32(p.Port)) {
			r.warn(at("spec.ports", i, "port"), fmt.Sprint(p.Port), "is a port of the proxy in every pod, so pods that have one do not reach the Service at it", "give the Service another port; its targetPort may be this one")
		}
	}
}

const unixPrefix = "unix://"

// resolution checks what each way of finding addresses needs and excludes.
func (r *report) resolution(s *networking.ServiceEntry, protocols map[string]string) {
	switch s.Resolution {
	case networking.ServiceEntry_NONE:
		if len(s.Endpoints) > 0 {
			r.reject("spec.endpoints", nil, "cannot be set with resolution NONE, which goes where the client goes", "set spec.resolution to STATIC for addresses or to DNS for names, or remove the endpoints")
		}
	case networking.ServiceEntry_STATIC:
		r.staticEndpoints(s, protocols)
	case networking.ServiceEntry_DNS, networking.ServiceEntry_DNS_ROUND_ROBIN:
		r.resolvedEndpoints(s, protocols)
	case networking.ServiceEntry_DYNAMIC_DNS:
		r.dynamic(s, protocols)
	}
}

func (r *report) staticEndpoints(s *networking.ServiceEntry, protocols map[string]string) {
	if len(s.Endpoints) == 0 && s.WorkloadSelector == nil {
		r.warn("spec.endpoints", nil, "resolution STATIC without addresses leads nowhere", "list spec.endpoints with IP addresses, set spec.workloadSelector, or set spec.resolution to DNS")
	}
	for i, e := range s.Endpoints {
		field := at("spec.endpoints", i, "address")
		if strings.HasPrefix(e.Address, unixPrefix) {
			r.unixSocket(field, e, len(s.Ports))
		} else if !isAddress(e.Address) && (e.Address != "" || e.Network == "") && !r.otherForm(field, e.Address) {
			r.reject(field, e.Address, "is no IP address, which resolution STATIC needs", "write an IP address, or set spec.resolution to DNS")
		}
		r.endpoint(at("spec.endpoints", i), e, protocols)
	}
}

func (r *report) unixSocket(field string, e *networking.WorkloadEntry, ports int) {
	r.unixPath(field, e.Address)
	if len(e.Ports) > 0 {
		r.reject(strings.TrimSuffix(field, "address")+"ports", nil, "a Unix socket has no ports", "remove them")
	}
	if ports != 1 {
		r.reject("spec.ports", nil, "an endpoint that is a Unix socket needs exactly one port", "keep one port")
	}
}

func (r *report) resolvedEndpoints(s *networking.ServiceEntry, protocols map[string]string) {
	if len(s.Endpoints) == 0 {
		for i, h := range s.Hosts {
			if strings.HasPrefix(h, "*") && h != "*" { // that one is refused whatever the resolution is
				r.reject(at("spec.hosts", i), h, fmt.Sprintf("a wildcard cannot be resolved with resolution %s", s.Resolution), "set spec.resolution to DYNAMIC_DNS, which resolves the name that the client asks for, or list spec.endpoints")
			}
		}
	}
	if s.Resolution == networking.ServiceEntry_DNS_ROUND_ROBIN && len(s.Endpoints) > 1 {
		r.reject("spec.endpoints", len(s.Endpoints), "resolution DNS_ROUND_ROBIN takes at most one endpoint", "keep one, or set spec.resolution to DNS")
	}
	for i, e := range s.Endpoints {
		field := at("spec.endpoints", i, "address")
		if strings.HasPrefix(e.Address, unixPrefix) {
			r.reject(field, e.Address, "a Unix socket cannot be resolved", "set spec.resolution to STATIC")
		} else if !isAddress(e.Address) && !r.otherForm(field, e.Address) {
			if _, err := host.ParseExact(e.Address); err != nil {
				r.hostError(field, e.Address, err)
			}
		}
		r.endpoint(at("spec.endpoints", i), e, protocols)
	}
}

func (r *report) dynamic(s *networking.ServiceEntry, protocols map[string]string) {
	for i, h := range s.Hosts {
		if !strings.HasPrefix(h, "*.") {
			r.reject(at("spec.hosts", i), h, "resolution DYNAMIC_DNS is for wildcards", `write it as in "*.example.com", or set spec.resolution to DNS`)
		}
	}
	for i, p := range s.Ports {
		if protocol := protocols[p.Name]; !isHTTP(protocol) && !isTLS(protocol) {
			r.reject(at("spec.ports", i, "protocol"), p.Protocol, "resolution DYNAMIC_DNS needs a protocol that carries the host's name", "use HTTP, HTTP2, GRPC, HTTPS or TLS")
		}
	}
	if len(s.Endpoints) > 0 {
		r.reject("spec.endpoints", nil, "cannot be set with resolution DYNAMIC_DNS, which goes where the name resolves", "remove them")
	}
	if len(s.Addresses) > 0 {
		r.reject("spec.addresses", strings.Join(s.Addresses, ", "), "cannot be set with resolution DYNAMIC_DNS: an address says no name to resolve", "remove them")
	}
}

// endpoint checks what is alike for all resolutions.
func (r *report) endpoint(field string, e *networking.WorkloadEntry, protocols map[string]string) {
	if e.Address == "" && e.Network != "" && len(e.Ports) == 0 {
		r.warn(at(field, "address"), nil, "without an address only the network's gateway can be reached", "write the endpoint's address")
	}
	r.endpointPorts(at(field, "ports"), e.Ports, protocols)
	r.labels(at(field, "labels"), e.Labels)
}
