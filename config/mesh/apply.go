package mesh

import (
	"fmt"
	"slices"
	"strings"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/localities"
)

// applyIstio takes over what in sets.
func (c *Config) applyIstio(in *meshconfig.MeshConfig) (problems []strict.Problem) {
	problems = append(c.applyOutbound(in.OutboundTrafficPolicy), c.Ingress.applyTopology(in.GetDefaultConfig().GetGatewayTopology())...)
	if ns := in.RootNamespace; ns != "" {
		if len(validation.IsDNS1123Label(ns)) > 0 {
			problems = append(problems, problem("rootNamespace", ns, "is no namespace's name", "use lower-case letters, digits and hyphens, at most 63"))
		}
		c.RootNamespace = ns
	}
	if td := in.TrustDomain; td != "" {
		if _, err := host.ParseExact(td); err != nil {
			problems = append(problems, problem("trustDomain", td, "is no domain", `write it as in "cluster.local"`))
		}
		c.TrustDomain = td
	}
	for i, alias := range in.TrustDomainAliases {
		if _, err := host.ParseExact(alias); err != nil {
			problems = append(problems, problem(fmt.Sprintf("trustDomainAliases[%d]", i), alias, "is no domain", `write it as in "cluster.local"`))
		}
	}
	if auto := in.EnableAutoMtls; auto != nil {
		c.AutoMTLS = auto.Value
	}
	localities.Check("localityLbSetting", in.LocalityLbSetting, func(field string, value any, message, fix string) {
		problems = append(problems, strict.Problem{Field: field, Value: strict.Show(value), Message: message, Fix: fix})
	})
	if in.LocalityLbSetting != nil {
		c.LocalityLb = in.LocalityLbSetting
	}
	c.TrustDomainAliases = slices.Clone(in.TrustDomainAliases)
	problems = append(problems, c.applyServiceSettings(in.ServiceSettings)...)
	problems = append(problems, c.applyProviders(in.ExtensionProviders)...)

	exports := []struct {
		field string
		value []string
		into  *[]string
	}{
		{"defaultServiceExportTo", in.DefaultServiceExportTo, &c.DefaultServiceExportTo},
		{"defaultServiceExportTo", in.DefaultServiceExportTo, &c.DefaultServiceEntryExportTo},
		{"defaultVirtualServiceExportTo", in.DefaultVirtualServiceExportTo, &c.DefaultVirtualServiceExportTo},
		{"defaultDestinationRuleExportTo", in.DefaultDestinationRuleExportTo, &c.DefaultDestinationRuleExportTo},
	}
	for i, e := range exports {
		if len(e.value) == 0 {
			continue
		}
		if i != 1 { // said once for the two that share a field
			problems = append(problems, checkExportTo(e.field, e.value)...)
		}
		*e.into = slices.Clone(e.value)
	}

	for _, d := range []struct {
		field string
		value interface{ AsDuration() time.Duration }
		set   bool
		into  *time.Duration
	}{
		{"protocolDetectionTimeout", in.ProtocolDetectionTimeout, in.ProtocolDetectionTimeout != nil, &c.ProtocolDetectionTimeout},
		{"connectTimeout", in.ConnectTimeout, in.ConnectTimeout != nil, &c.ConnectTimeout},
	} {
		if !d.set {
			continue
		}
		if *d.into = d.value.AsDuration(); *d.into < 0 {
			problems = append(problems, problem(d.field, d.into.String(), "is negative", `write a duration as in "5s"`))
		}
	}
	if in.ConnectTimeout != nil && 0 <= c.ConnectTimeout && c.ConnectTimeout < time.Millisecond { // with 0 Envoy refuses clusters
		problems = append(problems, problem("connectTimeout", c.ConnectTimeout.String(), "is less than a millisecond", `write a duration as in "5s"`))
	}
	if in.ProtocolDetectionTimeout != nil && c.ProtocolDetectionTimeout == 0 {
		c.Ignored = append(c.Ignored, problem("protocolDetectionTimeout", "0s",
			"is not applied: in Istio it means for ever, and who connects and says nothing would keep a place for ever; it is as if the field was not there",
			`remove it, or write how long clients are waited for, as in "60s"`))
	}
	return problems
}

// applyOutbound reads outboundTrafficPolicy. As in Istio, a message that is written replaces the default as a whole, so that
// one without a mode, "{}" too, is the enum's zero, REGISTRY_ONLY; one that is not written leaves ALLOW_ANY.
func (c *Config) applyOutbound(policy *meshconfig.MeshConfig_OutboundTrafficPolicy) (problems []strict.Problem) {
	if policy == nil {
		return nil
	}
	c.OutboundAllowAny = policy.Mode != meshconfig.MeshConfig_OutboundTrafficPolicy_REGISTRY_ONLY
	c.OutboundDynamicDNS = policy.Mode == meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS
	if policy.Tls != nil {
		problems = append(problems, strict.Problem{
			Field: "outboundTrafficPolicy.tls", Message: "TLS is not originated for hosts that nobody registered",
			Fix: "remove it, and register the hosts that it is meant for, with a DestinationRule each",
		})
	}
	return problems
}

func checkExportTo(field string, values []string) (problems []strict.Problem) {
	for i, v := range values {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case v == "*" && len(values) > 1:
			problems = append(problems, problem(at, v, `"*" beside other values`, `write "*" alone, or leave it out`))
		case v != "." && v != "*" && v != "~" && len(validation.IsDNS1123Label(v)) > 0:
			problems = append(problems, problem(at, v, "is no namespace's name", `write ".", "*" or the name of a namespace`))
		}
	}
	return problems
}

// applyOurs reads the sallyport block.
func (c *Config) applyOurs(tree any) []strict.Problem {
	b := block{}
	top := b.fields("sallyport", tree, "defaultGateway", "dns", "audit", "certificateFolders", "exports", "clusterNetworks", "injection", "policy", "fetch", "fetchGateways", "keepUnused", "ingress", "nodeAgents", "exportedTables", "tcpPorts", "mutualTLS", "traceProxies", "cluster", "network", "networks")
	if s := b.text("sallyport.defaultGateway", top["defaultGateway"]); s != "" {
		g, err := ParseGateway(s)
		if err != nil {
			b.add("sallyport.defaultGateway", s, "is no gateway", `write NAMESPACE/SERVICE as in "istio-system/istio-egressgateway", or "direct" for none`)
		}
		c.DefaultGateway = g
	}
	c.DNS = b.dns(top["dns"])
	b.topology(&c.Topology, top)
	c.ClusterNetworks = b.networks("sallyport.clusterNetworks", top["clusterNetworks"])
	c.Injection = b.injection(top["injection"])
	c.applyFetch(&b, top)
	if v := top["mutualTLS"]; v != nil {
		c.MutualTLS = b.yes("sallyport.mutualTLS", v)
	}
	if v := top["traceProxies"]; v != nil {
		c.TraceProxies = b.yes("sallyport.traceProxies", v)
	}
	c.NodeAgents = b.accounts("sallyport.nodeAgents", top["nodeAgents"])
	if v := top["exportedTables"]; v != nil {
		c.ExportedTables = b.whole("sallyport.exportedTables", v, "namespaces")
	}
	c.TCPPorts = b.tcpPorts("sallyport.tcpPorts", top["tcpPorts"])
	c.Policy = b.policy(top["policy"])
	b.ingress(&c.Ingress, top["ingress"])
	c.CertificateFolders = b.certificateFolders(top["certificateFolders"])
	c.Exports = b.exports(top["exports"])
	audit := b.fields("sallyport.audit", top["audit"], "retention", "recordsPerSecond", "whenFull", "mesh")
	if s := b.text("sallyport.audit.retention", audit["retention"]); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			b.add("sallyport.audit.retention", s, "is no duration", `write hours, as in "720h"`)
		}
		c.Audit.Retention, c.Audit.Written = d, true
	}
	if v := audit["recordsPerSecond"]; v != nil {
		c.Audit.RecordsPerSecond = b.number("sallyport.audit.recordsPerSecond", v, "records")
	}
	if s := b.text("sallyport.audit.whenFull", audit["whenFull"]); s != "" {
		if s != Drop && s != Deny {
			b.add("sallyport.audit.whenFull", s, "is neither", `write "drop" or "deny"; without it records that a proxy's disk does not take are dropped, and counted`)
		}
		c.Audit.WhenFull = s
	}
	if s := b.text("sallyport.audit.mesh", audit["mesh"]); s != "" {
		if s != MeshOff && s != MeshDenied && s != MeshAll {
			b.add("sallyport.audit.mesh", s, "is none of what may be recorded of what comes to pods", `write "off", "denied" or "all"; without it what policies deny is recorded`)
		}
		c.Audit.Mesh = s
	}
	return b.problems
}

// accounts reads service accounts, NAMESPACE/NAME.
func (b *block) accounts(at string, v any) (out []string) {
	for path, s := range b.texts(at, v) {
		namespace, name, _ := strings.Cut(s, "/")
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			b.add(path, s, "is no service account", `write NAMESPACE/NAME as in "istio-system/sallyport-node"`)
			continue
		}
		out = append(out, s)
	}
	return out
}
