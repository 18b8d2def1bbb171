package policy

import (
	"fmt"
	"net/netip"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Suggestion is the YAML that would register the destination for the workload's namespace, or the rule that would keep a policy
// from denying it; "" where neither is what is missing.
func Suggestion(w Workload, d Destination, v Verdict) string {
	if !v.Allowed && v.Ruling != nil {
		return ruleFor(d, v)
	}
	if !v.Missing {
		return ""
	}
	protocol := map[Scheme]string{HTTP: "HTTP", HTTPS: "HTTPS", TLS: "TLS", TCP: "TCP"}[d.Scheme]
	if registry.ServerFirst(d.Port) {
		protocol = "TCP" // nothing else is read there
	}
	host, resolution, addresses, annotations := d.Host, "DNS", "", ""
	if ip, err := netip.ParseAddr(d.Host); err == nil {
		if inside.Is(ip) { // a shared gateway connects to no such address unasked
			annotations = fmt.Sprintf("  annotations: {%s: %s}\n", registry.GatewayAnnotation, registry.ExitDirect)
		}
		host, resolution = HostOfAddress(d.Host), "STATIC"
		addresses = fmt.Sprintf("  addresses: [%q]\n  endpoints:\n  - {address: %q}\n", d.Host, d.Host)
	}
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata:
  name: %s
  namespace: %s
%sspec:
  hosts: [%q]
  location: MESH_EXTERNAL
  resolution: %s
%s  exportTo: ["."]
  ports:
  - {number: %d, name: %s-%d, protocol: %s}
`, word(fmt.Sprintf("%s-%d", ObjectName(host), d.Port)), word(w.Namespace), annotations, host, resolution, addresses, d.Port, strings.ToLower(protocol), d.Port, protocol)
}

// word writes a text for YAML, in quotes where it would pass for something else: "0b-1" is a number.
func word(s string) string {
	out, err := yaml.Marshal(s)
	if err != nil {
		return fmt.Sprintf("%q", s)
	}
	return strings.TrimSpace(string(out))
}

// HostOfAddress is the name under which an address can be registered, since hosts are names: it is never asked for.
func HostOfAddress(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	return strings.NewReplacer(".", "-", ":", "-").Replace(ip.WithZone("").StringExpanded()) + ".address.internal"
}

// ObjectName makes an object's name of a host's: RFC 1123's characters, and room for the port.
func ObjectName(host string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, host)
	return strings.Trim(name[:min(len(name), 240)], "-")
}

// ruleFor is the rule that allows what a policy denies, and no more, with a comment that says where it goes; "" where the request is
// denied for its path's sake, which is to be mended in the request.
func ruleFor(d Destination, v Verdict) string {
	r, a := v.Ruling, v.Asked
	if r.Path || r.Unknown || r.Unregistered {
		return ""
	}
	var out strings.Builder
	place := "after its other rules"
	if r.Rule != nil {
		place = "before rule " + r.Rule.Name
	}
	fmt.Fprintf(&out, "# in spec.rules of %s, %s\n- hosts: [%q]\n  ports: [%d]\n", r.Policy.Key, place, a.Host, a.Port)
	if a.Protocol == egresspolicy.HTTP && d.Path != "" {
		fmt.Fprintf(&out, "  methods: [%s]\n", a.Method)
		if egresspolicy.IsNormal(a.Path) && !strings.Contains(a.Path, "*") {
			fmt.Fprintf(&out, "  paths: [%q]\n", a.Path)
		}
	} else {
		fmt.Fprintf(&out, "  protocols: [%s]\n", a.Protocol)
	}
	out.WriteString("  action: Allow\n")
	return out.String()
}
