package redirect

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// Istio's flag names.
const (
	flagEnvoyPort            = "envoy-port"
	flagInboundCapturePort   = "inbound-capture-port"
	flagInboundTunnelPort    = "inbound-tunnel-port"
	flagProxyUID             = "proxy-uid"
	flagProxyGID             = "proxy-gid"
	flagMode                 = "istio-inbound-interception-mode"
	flagTProxyMark           = "istio-inbound-tproxy-mark"
	flagTProxyTable          = "istio-inbound-tproxy-route-table"
	flagServiceCIDR          = "istio-service-cidr"
	flagServiceExcludeCIDR   = "istio-service-exclude-cidr"
	flagInboundPorts         = "istio-inbound-ports"
	flagLocalExcludePorts    = "istio-local-exclude-ports"
	flagOutboundPorts        = "istio-outbound-ports"
	flagOutboundPortsExclude = "istio-local-outbound-ports-exclude"
	flagExcludeInterfaces    = "istio-exclude-interfaces"
	flagVirtualInterfaces    = "kube-virt-interfaces"
	flagRedirectDNS          = "redirect-dns"
	flagDNSPort              = "dns-port"
	flagBlockQUIC            = "block-quic"
	flagIPv6                 = "ipv6"
)

// environment names the variable that stands in for a flag that was not given. They are istio-init's, where it has one.
var environment = map[string]string{
	flagEnvoyPort:            "ENVOY_PORT",
	flagInboundCapturePort:   "INBOUND_CAPTURE_PORT",
	flagInboundTunnelPort:    "INBOUND_TUNNEL_PORT",
	flagProxyUID:             "PROXY_UID",
	flagProxyGID:             "PROXY_GID",
	flagMode:                 "ISTIO_INBOUND_INTERCEPTION_MODE",
	flagTProxyMark:           "ISTIO_INBOUND_TPROXY_MARK",
	flagTProxyTable:          "ISTIO_INBOUND_TPROXY_ROUTE_TABLE",
	flagServiceCIDR:          "ISTIO_SERVICE_CIDR",
	flagServiceExcludeCIDR:   "ISTIO_SERVICE_EXCLUDE_CIDR",
	flagInboundPorts:         "ISTIO_INBOUND_PORTS",
	flagLocalExcludePorts:    "ISTIO_LOCAL_EXCLUDE_PORTS",
	flagOutboundPorts:        "ISTIO_OUTBOUND_PORTS",
	flagOutboundPortsExclude: "ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE",
	flagExcludeInterfaces:    "ISTIO_EXCLUDE_INTERFACES",
	flagVirtualInterfaces:    "KUBE_VIRT_INTERFACES",
	flagRedirectDNS:          "ISTIO_META_DNS_CAPTURE",
}

// Bind registers the flags with their defaults and returns the settings that parsing fills.
func Bind(fs *pflag.FlagSet) *Settings {
	s := &Settings{}
	str := func(p *string, name, short, value, usage string) {
		if env := environment[name]; env != "" {
			usage += " ($" + env + ")"
		}
		fs.StringVarP(p, name, short, value, usage)
	}
	str(&s.EnvoyPort, flagEnvoyPort, "p", "15001", "outbound connections go to this `port` of the proxy")
	str(&s.InboundCapturePort, flagInboundCapturePort, "z", "15006", "inbound connections go to this `port` of the proxy")
	str(&s.InboundTunnelPort, flagInboundTunnelPort, "e", "15008", "inbound `port` for HBONE, left alone; 0 for none")
	str(&s.ProxyUID, flagProxyUID, "u", "1337", "user `ids` of the proxy, whose traffic is not caught")
	str(&s.ProxyGID, flagProxyGID, "g", "", "group `ids` of the proxy, whose traffic is not caught (default: what -u says)")
	str(&s.Mode, flagMode, "m", "REDIRECT", "how inbound connections are caught: REDIRECT or TPROXY")
	str(&s.TProxyMark, flagTProxyMark, "t", "1337", "packet `mark` for TPROXY")
	str(&s.TProxyTable, flagTProxyTable, "r", "133", "route `table` for TPROXY")
	str(&s.ServiceCIDR, flagServiceCIDR, "i", "*", "outbound `ranges` to catch: '*', a list, or '' for none")
	str(&s.ServiceExcludeCIDR, flagServiceExcludeCIDR, "x", "", "outbound `ranges` not to catch")
	str(&s.InboundPorts, flagInboundPorts, "b", "*", "inbound `ports` to catch: '*', a list, or '' for none")
	str(&s.LocalExcludePorts, flagLocalExcludePorts, "d", "15090,15020", "inbound `ports` not to catch, where -b is '*'")
	str(&s.OutboundPorts, flagOutboundPorts, "q", "", "outbound `ports` to catch whatever -i says")
	str(&s.OutboundPortsExclude, flagOutboundPortsExclude, "o", "", "outbound `ports` not to catch")
	str(&s.ExcludeInterfaces, flagExcludeInterfaces, "c", "", "`interfaces` whose traffic is not caught")
	str(&s.VirtualInterfaces, flagVirtualInterfaces, "k", "", "`interfaces` of guests in the pod (virtual machines, docker0), whose connections are caught as the pod's own")
	str(&s.DNSPort, flagDNSPort, "", "15053", "`port` of the agent's DNS server")
	str(&s.IPv6, flagIPv6, "", string(IPv6Auto), "IPv6 rules too: auto (where the namespace has IPv6), on or off")
	fs.BoolVar(&s.RedirectDNS, flagRedirectDNS, true,
		"send DNS queries (TCP and UDP 53, to any server) to the agent ($"+environment[flagRedirectDNS]+")")
	fs.BoolVar(&s.BlockQUIC, flagBlockQUIC, false,
		"refuse UDP 443 from everyone but the proxy, where TCP would be caught: clients fall back to TLS over TCP, which the proxy sees")
	return s
}

// FromEnvironment takes flags that were not given from the environment. An empty variable counts as unset, as in
// istio-init: it must not turn the default "catch everything" into "catch nothing".
func FromEnvironment(fs *pflag.FlagSet, getenv func(string) string) error {
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		name := environment[f.Name]
		if name == "" || f.Changed {
			return
		}
		value := getenv(name)
		if value == "" {
			return
		}
		if err := fs.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s=%q (for --%s): %w", name, value, f.Name, errors.Unwrap(err)))
		}
	})
	return errors.Join(errs...)
}

// ReadsVariable says whether an environment variable of this name stands in for a flag.
func ReadsVariable(name string) bool {
	for _, variable := range environment {
		if variable == name {
			return true
		}
	}
	return false
}
