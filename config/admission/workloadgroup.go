package admission

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (r *report) workloadGroup(g *networking.WorkloadGroup) {
	if g.Template == nil {
		r.reject("spec.template", nil, "it is missing", "write it, as in {serviceAccount: NAME}")
	}
	r.labels("spec.metadata.labels", g.GetMetadata().GetLabels())
	r.labels("spec.template.labels", g.GetTemplate().GetLabels())
	r.endpointPorts("spec.template.ports", g.GetTemplate().GetPorts(), nil)
	r.readinessProbe("spec.probe", g.Probe)
}

// MachineRanges reads MachinesAnnotation: addresses and ranges, with commas between them.
func MachineRanges(text string) (out []netip.Prefix, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		r, err := netip.ParsePrefix(part)
		if a, single := netip.ParseAddr(part); single == nil && a.Zone() == "" {
			r, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is no range of addresses", part)
		}
		out = append(out, r.Masked())
	}
	return out, nil
}

func (r *report) readinessProbe(field string, p *networking.ReadinessProbe) {
	if p == nil {
		return
	}
	r.notNegative(at(field, "initialDelaySeconds"), p.InitialDelaySeconds)
	r.notNegative(at(field, "timeoutSeconds"), p.TimeoutSeconds)
	r.notNegative(at(field, "periodSeconds"), p.PeriodSeconds)
	r.notNegative(at(field, "successThreshold"), p.SuccessThreshold)
	r.notNegative(at(field, "failureThreshold"), p.FailureThreshold)
	switch m := p.HealthCheckMethod.(type) {
	case *networking.ReadinessProbe_HttpGet:
		r.httpProbe(at(field, "httpGet"), m.HttpGet)
	case *networking.ReadinessProbe_TcpSocket:
		r.port(at(field, "tcpSocket.port"), m.TcpSocket.GetPort())
	case *networking.ReadinessProbe_Exec:
		if len(m.Exec.GetCommand()) == 0 {
			r.reject(at(field, "exec.command"), nil, "it is missing", "write the command and its arguments")
		}
	case *networking.ReadinessProbe_Grpc:
		r.port(at(field, "grpc.port"), m.Grpc.GetPort())
	default:
		r.reject(field, nil, "says not what to ask", "write one of httpGet, tcpSocket, exec and grpc")
	}
}

func (r *report) httpProbe(field string, h *networking.HTTPHealthCheckConfig) {
	r.port(at(field, "port"), h.GetPort())
	if s := h.GetScheme(); !slices.Contains([]string{"", "HTTP", "HTTPS"}, s) {
		r.reject(at(field, "scheme"), s, "is no scheme", "write HTTP or HTTPS")
	}
	for i, header := range h.GetHttpHeaders() {
		if len(validation.IsHTTPHeaderName(header.GetName())) > 0 {
			r.reject(at(field, "httpHeaders", i, "name"), header.GetName(), "is no header's name", "write letters, digits and hyphens")
		}
	}
}
