package admission

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sallyport/sallyport/config/host"
)

// What an API server would have checked: what files hold has met none.

const fixAddress = "write one, as in 10.1.2.3 or fd00::1"

// service checks the basics of a Service.
func (r *report) service(s *corev1.Service) {
	if strings.Contains(r.of.Name, ".") {
		r.reject("metadata.name", r.of.Name, "is no Service's name: its host would be another's", "use lower-case letters, digits and hyphens")
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		if s.Spec.ExternalName == "" {
			r.reject("spec.externalName", nil, "it is missing", "write the host's name")
		} else if isAddress(s.Spec.ExternalName) {
			r.warn("spec.externalName", s.Spec.ExternalName, "is an IP address, and names of hosts are meant: neither the cluster's DNS nor proxies lead there",
				"write a Service without selector and an EndpointSlice with the address, or register a host with it by a ServiceEntry (spec.endpoints)")
		} else if _, err := host.ParseExact(strings.TrimSuffix(s.Spec.ExternalName, ".")); err != nil && !r.otherForm("spec.externalName", s.Spec.ExternalName) {
			r.hostError("spec.externalName", s.Spec.ExternalName, err)
		}
	} else if len(s.Spec.Ports) == 0 && s.Spec.ClusterIP != corev1.ClusterIPNone {
		r.reject("spec.ports", nil, "there is no port", "write at least one, as in {port: 443, name: tls}")
	}
	if ip := s.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone && !isAddress(ip) {
		r.reject("spec.clusterIP", ip, "is no IP address", `write one, or "None"`)
	}
	for i, ip := range s.Spec.ClusterIPs {
		if ip != corev1.ClusterIPNone {
			r.address(at("spec.clusterIPs", i), ip)
		}
	}
	for i, ip := range s.Spec.ExternalIPs {
		r.address(at("spec.externalIPs", i), ip)
	}
	names, numbers := map[string]bool{}, map[string]bool{}
	for i, p := range s.Spec.Ports {
		r.kubePort(at("spec.ports", i, "port"), p.Port)
		if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal != 0 {
			r.kubePort(at("spec.ports", i, "targetPort"), p.TargetPort.IntVal)
		}
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
	r.serviceExports()
}

func (r *report) kubePort(field string, n int32) {
	if n < 1 || n > 65535 {
		r.reject(field, n, "is no port number", "write a number from 1 to 65535")
	}
}

// address rejects what is no IP address.
func (r *report) address(field, value string) {
	if !isAddress(value) && !r.otherForm(field, value) {
		r.reject(field, value, "is no IP address", fixAddress)
	}
}

// pod checks what others connect to.
func (r *report) pod(p *corev1.Pod) {
	if p.Status.PodIP != "" {
		r.address("status.podIP", p.Status.PodIP)
	}
	for i, ip := range p.Status.PodIPs {
		r.address(at("status.podIPs", i, "ip"), ip.IP)
	}
	for i, c := range p.Spec.Containers {
		for j, port := range c.Ports {
			r.kubePort(at("spec.containers", i, "ports", j, "containerPort"), port.ContainerPort)
		}
	}
}

// node checks what says where the cluster's own networks are.
func (r *report) node(n *corev1.Node) {
	cidr := func(field, value string) {
		if _, err := netip.ParsePrefix(value); err != nil {
			r.reject(field, value, "is no CIDR block", `write ADDRESS/BITS as in "10.244.0.0/24"`)
		}
	}
	if n.Spec.PodCIDR != "" {
		cidr("spec.podCIDR", n.Spec.PodCIDR)
	}
	for i, block := range n.Spec.PodCIDRs {
		cidr(at("spec.podCIDRs", i), block)
	}
	for i, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			r.address(at("status.addresses", i, "address"), a.Address)
		}
	}
}

func (r *report) endpointSlice(s *discoveryv1.EndpointSlice) {
	if s.Labels[discoveryv1.LabelServiceName] == "" {
		r.warn("metadata.labels", nil, "no Service is named, so the endpoints belong to none", "add the label "+discoveryv1.LabelServiceName+": SERVICE")
	}
	switch s.AddressType {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
	case discoveryv1.AddressTypeFQDN:
		r.warn("addressType", string(s.AddressType), "no proxy connects to its names, as no kube-proxy does", "register the names by a ServiceEntry with resolution DNS")
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
			if s.AddressType != discoveryv1.AddressTypeFQDN && (err != nil || ip.Zone() != "" || ip.Is4() != v4) {
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
