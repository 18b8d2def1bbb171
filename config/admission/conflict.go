package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// conflicts warns of hosts that two entries register for the same workloads with different settings: only one can
// hold.
func (w *world) conflicts() []Finding {
	var findings []Finding
	for _, h := range slices.Sorted(maps.Keys(w.hosts)) {
		first := w.hosts[h][0]
		for _, second := range w.hosts[h][1:] {
			if !overlap(first.exportTo, second.exportTo) {
				continue
			}
			if field, value, other := w.difference(first, second); field != "" {
				r := &report{of: second.object}
				r.warn(field, value, fmt.Sprintf("%s at %s registers %s too, with %s", first.object.Key, first.object.Origin, h, other),
					"make the two alike, export them to different namespaces, or remove one")
				findings = append(findings, r.findings...)
			}
		}
	}
	return findings
}

// overlap says whether two lists of namespaces have one in common.
func overlap(a, b []string) bool {
	for _, x := range a {
		if slices.Contains(b, x) || x == "*" && !slices.Contains(b, "~") {
			return true
		}
	}
	return slices.Contains(b, "*") && !slices.Contains(a, "~")
}

// difference finds the first setting in which b contradicts a: its field and value in b, and what a has.
func (w *world) difference(a, b *entry) (field, value, other string) {
	if a.spec.Location != b.spec.Location {
		return "spec.location", b.spec.Location.String(), a.spec.Location.String()
	}
	if a.spec.Resolution != b.spec.Resolution {
		return "spec.resolution", b.spec.Resolution.String(), a.spec.Resolution.String()
	}
	if x, y := w.gatewayOf(a), w.gatewayOf(b); x != y && a.external() {
		if x == "" {
			x = w.cfg.DefaultGateway.String()
		}
		if y == "" {
			y = w.cfg.DefaultGateway.String()
		}
		if x != y {
			return "metadata.annotations[" + `"` + GatewayAnnotation + `"]`, y, "the gateway " + x
		}
	}
	for i, p := range b.spec.Ports {
		for _, q := range a.spec.Ports {
			switch {
			case p.Number != q.Number:
			case !strings.EqualFold(p.Protocol, q.Protocol):
				return at("spec.ports", i, "protocol"), p.Protocol, fmt.Sprintf("protocol %q on port %d", q.Protocol, q.Number)
			case p.TargetPort != q.TargetPort:
				return at("spec.ports", i, "targetPort"), text(p.TargetPort), fmt.Sprintf("targetPort %d", q.TargetPort)
			}
		}
	}
	if !slices.EqualFunc(a.spec.Endpoints, b.spec.Endpoints, func(x, y *networking.WorkloadEntry) bool { return proto.Equal(x, y) }) {
		return "spec.endpoints", "", "other endpoints"
	}
	if !slices.Equal(a.spec.Addresses, b.spec.Addresses) {
		return "spec.addresses", strings.Join(b.spec.Addresses, ", "), "other addresses"
	}
	if !slices.Equal(a.spec.SubjectAltNames, b.spec.SubjectAltNames) {
		return "spec.subjectAltNames", strings.Join(b.spec.SubjectAltNames, ", "), "other names"
	}
	return "", "", ""
}
