package admission

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// service checks the basics that an API server would: what files hold has met none.
func (r *report) service(s *corev1.Service) {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		if s.Spec.ExternalName == "" {
			r.reject("spec.externalName", nil, "it is missing", "write the host's name")
		}
	} else if len(s.Spec.Ports) == 0 && s.Spec.ClusterIP != corev1.ClusterIPNone {
		r.reject("spec.ports", nil, "there is no port", "write at least one, as in {port: 443, name: tls}")
	}
	if ip := s.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone && !isAddress(ip) {
		r.reject("spec.clusterIP", ip, "is no IP address", `write one, or "None"`)
	}
	names, numbers := map[string]bool{}, map[string]bool{}
	for i, p := range s.Spec.Ports {
		r.kubePort(at("spec.ports", i, "port"), p.Port)
		if len(s.Spec.Ports) > 1 && p.Name == "" {
			r.reject(at("spec.ports", i, "name"), nil, "the port has no name", "give each port one, as there are several")
		}
		if p.Name != "" && names[p.Name] {
			r.reject(at("spec.ports", i, "name"), p.Name, "the name is there twice", "give each port its own name")
		}
		names[p.Name] = true
		id := fmt.Sprint(p.Protocol, "/", p.Port)
		if numbers[id] {
			r.reject(at("spec.ports", i, "port"), p.Port, "the port is there twice", "write each port once")
		}
		numbers[id] = true
	}
	r.labels("spec.selector", s.Spec.Selector)
}

func (r *report) kubePort(field string, n int32) {
	if n < 1 || n > 65535 {
		r.reject(field, n, "is no port number", "write a number from 1 to 65535")
	}
}

func (r *report) endpointSlice(s *discoveryv1.EndpointSlice) {
	if s.Labels[discoveryv1.LabelServiceName] == "" {
		r.warn("metadata.labels", nil, "no Service is named, so the endpoints belong to none", "add the label "+discoveryv1.LabelServiceName+": SERVICE")
	}
	switch s.AddressType {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN:
	default:
		r.reject("addressType", string(s.AddressType), "is no type of addresses", "write IPv4, IPv6 or FQDN")
		return
	}
	for i, e := range s.Endpoints {
		if len(e.Addresses) == 0 {
			r.reject(at("endpoints", i, "addresses"), nil, "there is no address", "write one")
		}
		for j, a := range e.Addresses {
			ip, err := netip.ParseAddr(a)
			v4 := s.AddressType == discoveryv1.AddressTypeIPv4
			if s.AddressType != discoveryv1.AddressTypeFQDN && (err != nil || ip.Is4() != v4) {
				r.reject(at("endpoints", i, "addresses", j), a, fmt.Sprintf("is no %s address", s.AddressType), "write one, or change addressType")
			}
		}
	}
	for i, p := range s.Ports {
		if p.Port != nil {
			r.kubePort(at("ports", i, "port"), *p.Port)
		}
	}
}
