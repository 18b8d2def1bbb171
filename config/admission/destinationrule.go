package admission

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

func (r *report) destinationRule(d *networking.DestinationRule) {
	r.hostPattern("spec.host", d.Host, true)
	r.trafficPolicy("spec.trafficPolicy", d.TrafficPolicy)
	r.atMost("spec.subsets", len(d.Subsets), registry.MostSubsets, "subsets", "")
	names := map[string]bool{}
	for i, s := range d.Subsets {
		field := at("spec.subsets", i)
		if !isLabel(s.Name) {
			r.reject(at(field, "name"), s.Name, "is no subset's name", "use letters, digits and hyphens, at most 63")
		}
		if names[s.Name] {
			r.reject(at(field, "name"), s.Name, "the name is there twice", "give each subset its own name")
		}
		names[s.Name] = true
		r.labels(at(field, "labels"), s.Labels)
		r.trafficPolicy(at(field, "trafficPolicy"), s.TrafficPolicy)
	}
	if d.WorkloadSelector != nil {
		if len(d.WorkloadSelector.MatchLabels) == 0 {
			r.warn("spec.workloadSelector.matchLabels", nil, "selects every workload of the namespace", "name the labels of the workloads that are meant")
		}
		r.selector("spec.workloadSelector.matchLabels", d.WorkloadSelector.MatchLabels)
		for i, e := range d.ExportTo {
			if e != "." && e != r.of.Namespace {
				r.reject(at("spec.exportTo", i), e, "a rule with a workloadSelector is for its own namespace only", `write "."`)
			}
		}
	}
	r.exportTo("spec.exportTo", d.ExportTo)
}

func (r *report) trafficPolicy(field string, p *networking.TrafficPolicy) {
	if p == nil {
		return
	}
	if p.LoadBalancer == nil && p.ConnectionPool == nil && p.OutlierDetection == nil && p.Tls == nil &&
		len(p.PortLevelSettings) == 0 && p.Tunnel == nil && p.ProxyProtocol == nil && p.RetryBudget == nil {
		r.reject(field, nil, "says nothing", "write at least one of its fields, as in tls, or remove it")
	}
	if p.Tunnel != nil && p.ProxyProtocol != nil {
		r.reject(at(field, "tunnel"), nil, "cannot be set together with proxyProtocol", "remove one of the two")
	}
	r.loadBalancer(at(field, "loadBalancer"), p.LoadBalancer)
	r.connectionPool(at(field, "connectionPool"), p.ConnectionPool)
	r.outlier(at(field, "outlierDetection"), p.OutlierDetection)
	r.clientTLS(at(field, "tls"), p.Tls)
	first := map[uint32]int{}
	for i, s := range p.PortLevelSettings {
		where := at(field, "portLevelSettings", i)
		r.portPolicy(where, s)
		number := s.GetPort().GetNumber()
		if before, there := first[number]; there {
			r.warn(at(where, "port.number"), number, fmt.Sprintf("the port is there twice, and portLevelSettings[%d] counts: nothing of this is applied", before), "write what both say into one")
			continue
		}
		first[number] = i
	}
	r.tunnel(at(field, "tunnel"), p.Tunnel)
	if b := p.RetryBudget; b != nil && b.Percent != nil && (b.Percent.Value < 0 || b.Percent.Value > 100) {
		r.reject(at(field, "retryBudget.percent"), b.Percent.Value, "is no percentage", "write a number from 0 to 100")
	}
}

func (r *report) portPolicy(field string, s *networking.TrafficPolicy_PortTrafficPolicy) {
	if s.Port == nil {
		r.reject(at(field, "port"), nil, "it is missing", "write it, as in {number: 443}")
	} else if n := s.Port.Number; n == 0 || n > 65535 {
		r.warn(at(field, "port.number"), n, "is no port number, so these settings have no effect", "write a number from 1 to 65535")
	}
	if s.LoadBalancer == nil && s.ConnectionPool == nil && s.OutlierDetection == nil && s.Tls == nil {
		r.reject(field, nil, "says nothing of the port", "write at least one of loadBalancer, connectionPool, outlierDetection and tls")
	}
	r.loadBalancer(at(field, "loadBalancer"), s.LoadBalancer)
	r.connectionPool(at(field, "connectionPool"), s.ConnectionPool)
	r.outlier(at(field, "outlierDetection"), s.OutlierDetection)
	r.clientTLS(at(field, "tls"), s.Tls)
}

func (r *report) tunnel(field string, t *networking.TrafficPolicy_TunnelSettings) {
	if t == nil {
		return
	}
	if t.Protocol != "" && t.Protocol != "CONNECT" && t.Protocol != "POST" {
		r.reject(at(field, "protocol"), t.Protocol, "is no way to tunnel", "write CONNECT or POST")
	}
	if _, err := host.ParseExact(t.TargetHost); err != nil && !isAddress(t.TargetHost) {
		r.hostError(at(field, "targetHost"), t.TargetHost, err)
	}
	r.port(at(field, "targetPort"), t.TargetPort)
}

func (r *report) outlier(field string, o *networking.OutlierDetection) {
	if o == nil {
		return
	}
	r.positive(at(field, "interval"), o.Interval)
	r.positive(at(field, "baseEjectionTime"), o.BaseEjectionTime)
	r.percent(at(field, "maxEjectionPercent"), o.MaxEjectionPercent)
	r.percent(at(field, "minHealthPercent"), o.MinHealthPercent)
	if o.ConsecutiveLocalOriginFailures.GetValue() > 0 && !o.SplitExternalLocalOriginErrors {
		r.reject(at(field, "consecutiveLocalOriginFailures"), o.ConsecutiveLocalOriginFailures.Value, "has no effect without splitExternalLocalOriginErrors", "set splitExternalLocalOriginErrors to true")
	}
}

func (r *report) percent(field string, v int32) {
	if v < 0 || v > 100 {
		r.reject(field, v, "is no percentage", fmt.Sprintf("write a number from %d to %d", 0, 100))
	}
}
