package inject

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// nameServers warns of name servers by which the proxy does not find the control plane: it asks those of the pod's resolv.conf, and is not ready before.
// Of others than the cluster's own only those are known not to know its names that are outside, and those that are not there yet.
func (r *reader) nameServers(pod *corev1.Pod, o options) {
	host, _, err := net.SplitHostPort(o.DiscoveryAddress)
	if err != nil || pod.Spec.DNSPolicy != corev1.DNSDefault && pod.Spec.DNSPolicy != corev1.DNSNone {
		return
	}
	ofCluster := strings.HasSuffix(host, ".svc") || strings.Contains(host, ".svc.")
	if pod.Spec.DNSPolicy == corev1.DNSDefault {
		if ofCluster {
			r.warn("dnsPolicy: %q: the proxy looks up the control plane (%s) by the node's name servers, which do not know the cluster's names, so that the pod does not become ready; remove dnsPolicy, or write ClusterFirst", pod.Spec.DNSPolicy, host)
		}
		return
	}
	config := pod.Spec.DNSConfig
	if config == nil || len(config.Nameservers) == 0 {
		return // Kubernetes refuses it
	}
	servers := strings.Join(config.Nameservers, ",")
	if !slices.ContainsFunc(config.Nameservers, func(s string) bool { return !loopback(s) }) {
		if captured, said := parseBool(o.proxyConfig.GetProxyMetadata()[dnsCapture]); o.native || o.intercept && (captured || !said) {
			r.warn("dnsConfig.nameservers: %q: the proxy looks up names by a resolver of the pod's own, which is not there before the proxy is ready, and whose own queries are caught and come back to it (unless %s is false), so that the pod does not become ready; write dnsPolicy ClusterFirst: the proxy answers the pod's queries, and asks the cluster's name servers", servers, dnsCapture)
		}
		return
	}
	switch {
	case !ofCluster:
	case !slices.ContainsFunc(config.Nameservers, func(s string) bool { return !outside(s) }):
		r.warn("dnsConfig.nameservers: %q: the proxy looks up the control plane (%s) by them, which are outside and do not know the cluster's names, so that the pod does not become ready; write the cluster's own, or dnsPolicy ClusterFirst", servers, host)
	case strings.HasSuffix(host, ".svc") && len(config.Searches) == 0:
		r.warn("dnsConfig.searches: there are none, and the proxy does not find the control plane (%s) without the cluster's domain, so that the pod does not become ready; write it, as in cluster.local, or dnsPolicy ClusterFirst", host)
	}
}

func loopback(server string) bool {
	addr, err := netip.ParseAddr(server)
	return err == nil && addr.IsLoopback()
}

// shared are addresses of carriers (RFC 6598), which some clusters use inside.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// outside says whether an address is of the internet.
func outside(server string) bool {
	addr, err := netip.ParseAddr(server)
	return err == nil && addr.IsGlobalUnicast() && !addr.IsPrivate() && !shared.Contains(addr)
}
