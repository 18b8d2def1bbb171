package admission

import (
	"fmt"
	"net/netip"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/serviceentry/decode/strict"
	"github.com/sallyport/sallyport/serviceentry/host"
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
		r.reject("spec.endpoints", nil, "resolution STATIC needs addresses", "list spec.endpoints with IP addresses, set spec.workloadSelector, or set spec.resolution to DNS")
	}
	for i, e := range s.Endpoints {
		field := at("spec.endpoints", i, "address")
		if path, unix := strings.CutPrefix(e.Address, unixPrefix); unix {
			r.unixSocket(field, path, e, len(s.Ports))
		} else if _, err := netip.ParseAddr(e.Address); err != nil && (e.Address != "" || e.Network == "") {
			r.reject(field, e.Address, "is no IP address, which resolution STATIC needs", "write an IP address, or set spec.resolution to DNS")
		}
		r.endpoint(at("spec.endpoints", i), e, protocols)
	}
}

func (r *report) unixSocket(field, path string, e *networking.WorkloadEntry, ports int) {
	if !strings.HasPrefix(path, "@") && (!strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/")) {
		r.reject(field, e.Address, "is no absolute path of a socket", "write unix:///PATH, or unix://@NAME for an abstract socket")
	}
	if len(e.Ports) > 0 {
		r.reject(strings.TrimSuffix(field, "address")+"ports", nil, "a Unix socket has no ports", "remove them")
	}
	if ports != 1 {
		r.reject("spec.ports", nil, "an endpoint that is a Unix socket needs exactly one port", "keep one port")
	}
}

func (r *report) resolvedEndpoints(s *networking.ServiceEntry, protocols map[string]string) {
	if s.WorkloadSelector == nil && len(s.Endpoints) == 0 {
		for i, h := range s.Hosts {
			if strings.HasPrefix(h, "*.") {
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
		} else if _, err := netip.ParseAddr(e.Address); err != nil && (e.Address != "" || e.Network == "") {
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
		r.warn("spec.endpoints", nil, "have no effect with resolution DYNAMIC_DNS", "remove them")
	}
}

// endpoint checks what is alike for all resolutions.
func (r *report) endpoint(field string, e *networking.WorkloadEntry, protocols map[string]string) {
	if e.Address == "" && e.Network != "" && len(e.Ports) == 0 {
		r.warn(at(field, "address"), nil, "without an address only the network's gateway can be reached", "write the endpoint's address")
	}
	for _, name := range sortedKeys(e.Ports) {
		where := strict.Join(at(field, "ports"), name)
		r.port(where, e.Ports[name])
		if _, known := protocols[name]; !known {
			r.reject(where, e.Ports[name], fmt.Sprintf("spec.ports has no port of the name %q", name), "use the name of one of spec.ports")
		}
		if len(name) > 63 || len(validation.IsDNS1123Label(strings.ToLower(name))) > 0 {
			r.reject(where, name, "is no port's name", "use letters, digits and hyphens")
		}
	}
	r.labels(at(field, "labels"), e.Labels)
}
