package admission

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
)

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
		} else if !isAddress(e.Address) && (e.Address != "" || e.Network == "") {
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
		} else if !isAddress(e.Address) {
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
