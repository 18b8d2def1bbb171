package admission

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/serviceentry/host"
)

func (r *report) destinationRule(d *networking.DestinationRule) {
	if _, err := host.Parse(d.Host); err != nil {
		r.hostError("spec.host", d.Host, err)
	}
	r.trafficPolicy("spec.trafficPolicy", d.TrafficPolicy)
	names := map[string]bool{}
	for i, s := range d.Subsets {
		field := at("spec.subsets", i)
		if len(validation.IsDNS1123Label(s.Name)) > 0 {
			r.reject(at(field, "name"), s.Name, "is no subset's name", "use lower-case letters, digits and hyphens, at most 63")
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
			if e != "." {
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
	r.loadBalancer(at(field, "loadBalancer"), p.LoadBalancer)
	r.connectionPool(at(field, "connectionPool"), p.ConnectionPool)
	r.outlier(at(field, "outlierDetection"), p.OutlierDetection)
	r.clientTLS(at(field, "tls"), p.Tls)
	for i, s := range p.PortLevelSettings {
		at := func(name string) string { return at(field, "portLevelSettings", i, name) }
		if s.Port == nil {
			r.reject(at("port"), nil, "it is missing", "write it, as in {number: 443}")
		} else {
			r.port(at("port.number"), s.Port.Number)
		}
		r.loadBalancer(at("loadBalancer"), s.LoadBalancer)
		r.connectionPool(at("connectionPool"), s.ConnectionPool)
		r.outlier(at("outlierDetection"), s.OutlierDetection)
		r.clientTLS(at("tls"), s.Tls)
	}
	if t := p.Tunnel; t != nil {
		if t.Protocol != "" && t.Protocol != "CONNECT" && t.Protocol != "POST" {
			r.reject(at(field, "tunnel.protocol"), t.Protocol, "is no way to tunnel", "write CONNECT or POST")
		}
		if _, err := host.ParseExact(t.TargetHost); err != nil && !isAddress(t.TargetHost) {
			r.hostError(at(field, "tunnel.targetHost"), t.TargetHost, err)
		}
		r.port(at(field, "tunnel.targetPort"), t.TargetPort)
	}
	if b := p.RetryBudget; b != nil && b.Percent != nil && (b.Percent.Value < 0 || b.Percent.Value > 100) {
		r.reject(at(field, "retryBudget.percent"), b.Percent.Value, "is no percentage", "write a number from 0 to 100")
	}
}

func (r *report) clientTLS(field string, t *networking.ClientTLSSettings) {
	if t == nil {
		return
	}
	if t.InsecureSkipVerify.GetValue() && t.Mode == networking.ClientTLSSettings_SIMPLE {
		if t.CaCertificates != "" {
			r.reject(at(field, "caCertificates"), t.CaCertificates, "has no effect while insecureSkipVerify is true", "remove one of the two")
		}
		if len(t.SubjectAltNames) > 0 {
			r.reject(at(field, "subjectAltNames"), nil, "have no effect while insecureSkipVerify is true", "remove one of the two")
		}
	}
	if t.InsecureSkipVerify.GetValue() {
		r.warn(at(field, "insecureSkipVerify"), true, "the server's certificate is not checked: anyone on the way can read and change the traffic", "remove it, and name the server's CA in credentialName or caCertificates")
	}
	files := map[string]string{"clientCertificate": t.ClientCertificate, "privateKey": t.PrivateKey, "caCertificates": t.CaCertificates}
	switch t.Mode {
	case networking.ClientTLSSettings_MUTUAL:
		if t.CredentialName != "" {
			for _, name := range sortedKeys(files) {
				if files[name] != "" {
					r.reject(at(field, name), files[name], "cannot be set together with credentialName", "remove one of the two")
				}
			}
			return
		}
		for _, name := range []string{"clientCertificate", "privateKey"} {
			if files[name] == "" {
				r.reject(at(field, name), nil, "mode MUTUAL needs a client certificate", "write clientCertificate and privateKey, or credentialName with the name of a secret")
			}
		}
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		files["credentialName"] = t.CredentialName
		for _, name := range sortedKeys(files) {
			if files[name] != "" {
				r.reject(at(field, name), files[name], "cannot be set with mode ISTIO_MUTUAL, which uses the workload's own certificate", "remove it, or set mode to MUTUAL")
			}
		}
	case networking.ClientTLSSettings_DISABLE:
		if t.Sni != "" || t.CredentialName != "" || t.CaCertificates != "" || len(t.SubjectAltNames) > 0 {
			r.warn(field, nil, "the other settings have no effect with mode DISABLE", "set mode to SIMPLE, or remove them")
		}
	}
}

func (r *report) outlier(field string, o *networking.OutlierDetection) {
	if o == nil {
		return
	}
	r.positive(at(field, "interval"), o.Interval)
	r.positive(at(field, "baseEjectionTime"), o.BaseEjectionTime)
	r.percent(at(field, "maxEjectionPercent"), o.MaxEjectionPercent)
	r.percent(at(field, "minHealthPercent"), o.MinHealthPercent)
	if o.ConsecutiveErrors != 0 {
		r.warn(at(field, "consecutiveErrors"), o.ConsecutiveErrors, "is deprecated", "write consecutive5xxErrors or consecutiveGatewayErrors")
	}
	if o.ConsecutiveLocalOriginFailures.GetValue() > 0 && !o.SplitExternalLocalOriginErrors {
		r.reject(at(field, "consecutiveLocalOriginFailures"), o.ConsecutiveLocalOriginFailures.Value, "has no effect without splitExternalLocalOriginErrors", "set splitExternalLocalOriginErrors to true")
	}
}

func (r *report) percent(field string, v int32) {
	if v < 0 || v > 100 {
		r.reject(field, v, "is no percentage", fmt.Sprintf("write a number from %d to %d", 0, 100))
	}
}
