package registry

import (
	"cmp"
	"maps"
	"slices"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// TLSMode is how a connection to the server is made.
type TLSMode int

// The modes of Istio's ClientTLSSettings.
const (
	TLSDisable TLSMode = iota
	TLSSimple
	TLSMutual
	TLSIstioMutual
)

// TLSSettings is what a DestinationRule says about TLS towards the server. File names are paths in the
// proxy's file system.
type TLSSettings struct {
	Mode               TLSMode
	SNI                string
	SANs               []string
	CACertificates     string
	CRL                string
	ClientCertificate  string
	PrivateKey         string
	CredentialName     string // of a Secret in Namespace, which is the rule's; both "" without one
	Namespace          string
	InsecureSkipVerify bool
	// Crowded is why nothing is sent by these settings: their names are too many for what is below the rule's host; see crowdedrules.go.
	Crowded string
	// Where a BackendTLSPolicy says them: which one; whose certificates vouch for the server, the system's without; and why nothing is
	// sent by it. What it is about is wrapped in TLS whatever the port is named for.
	By       *config.Key
	Revision string
	Trust    CredentialRef
	Refused  string
	// Whole says that a gateway speaks it for requests which it reads itself, whatever the port is named for (Rule.ForRequests).
	Whole bool
}

// DestinationRule is what a DestinationRule says about a host.
type DestinationRule struct {
	Key         config.Key // of several objects that are joined: of that which writes trafficPolicy, else of the oldest
	Created     time.Time
	Host        string // exact or wildcard
	ExportTo    ExportTo
	Refused     string                   // why nothing of it is applied; "" for a good one
	Selector    map[string]string        // of the workloads that it is for, in its own namespace; nil for all
	TLS         *TLSSettings             // for all ports
	PortTLS     map[uint32]*TLSSettings  // for single ports, which win, also where they say nothing (nil)
	Subsets     []Subset                 // in order of their names
	Uncounted   int                      // to what they come where that is too much, and none counts (TooManySubsets)
	Crowded     string                   // why none of them counts for what a namespace registers below the host
	traffic     TrafficPolicy            // for all ports
	portTraffic map[uint32]TrafficPolicy // for single ports, which win
	Hash        uint64
	Revision    string // of the object
	distinct    []TrafficPolicy
	policy      bool               // trafficPolicy is written, whatever it says
	parts       []*DestinationRule // that it is joined of, in order of age; nil of a single object's
}

// TLSFor gives the settings for a port; nil when the rule says nothing. As in Istio, settings for the port stand in for those for
// all ports as a whole: one without tls has none of its own, whatever the rule says for all.
func (r *DestinationRule) TLSFor(port uint32) *TLSSettings {
	if r == nil {
		return nil
	}
	if t, ok := r.PortTLS[port]; ok {
		return t
	}
	return r.TLS
}

// ForRequests is the rule as a gateway follows it that reads requests itself: nobody else speaks TLS for them, so what the rule says of it counts at
// ports of TLS, too.
func (r *DestinationRule) ForRequests(svc *Service) *DestinationRule {
	out := r
	for _, port := range svc.Ports {
		t := r.TLSFor(port.Number)
		if port.Protocol != TLS || t == nil || (t.Mode != TLSSimple && t.Mode != TLSMutual) {
			continue
		}
		if out == r {
			out = r.ownPorts()
		}
		whole := *t
		whole.Whole = true
		out.PortTLS[port.Number] = &whole
	}
	return out
}

// ownPorts is the same rule, with settings of ports that may be written.
func (r *DestinationRule) ownPorts() *DestinationRule {
	out := *r
	if out.PortTLS = maps.Clone(r.PortTLS); out.PortTLS == nil {
		out.PortTLS = map[uint32]*TLSSettings{}
	}
	return &out
}

// ConnectTimeoutFor gives the bound for a port, as TrafficFor does; def where the rule says nothing.
func (r *DestinationRule) ConnectTimeoutFor(port uint32, def time.Duration) time.Duration {
	return cmp.Or(r.TrafficFor(port).connectTimeout(), def)
}

func fromDestinationRule(o *config.Object, spec *networking.DestinationRule, cfg *mesh.Config) *DestinationRule {
	r := &DestinationRule{
		Refused: o.Refused,
		Key:     o.Key, Host: ruleHost(spec.Host, o.Namespace), ExportTo: exportTo(spec.ExportTo, o.Namespace, cfg.DefaultDestinationRuleExportTo),
		TLS: tlsSettings(spec.GetTrafficPolicy().GetTls(), o.Namespace), Hash: o.Hash, Revision: o.Revision,
		Created: o.Created, policy: spec.TrafficPolicy != nil,
	}
	if labels := spec.GetWorkloadSelector().GetMatchLabels(); len(labels) > 0 {
		r.Selector, r.ExportTo = labels, ExportTo{Namespaces: []string{o.Namespace}}
	}
	for _, p := range spec.GetTrafficPolicy().GetPortLevelSettings() {
		if r.PortTLS == nil {
			r.PortTLS = map[uint32]*TLSSettings{}
		}
		if number := p.GetPort().GetNumber(); !has(r.PortTLS, number) { // of two for one port the first counts, as in Istio
			r.PortTLS[number] = tlsSettings(p.GetTls(), o.Namespace)
		}
	}
	r.readTraffic(spec.GetTrafficPolicy())
	r.readSubsets(spec.Subsets)
	r.tellApart()
	return r
}

func has[V any](m map[uint32]V, port uint32) bool {
	_, there := m[port]
	return there
}

// ruleHost completes the short name of a Kubernetes service.
func ruleHost(host, namespace string) string {
	host = CanonicalHost(host)
	if host != "" && host[0] != '*' && !slices.Contains([]byte(host), '.') {
		return Ref{namespace, host}.Host()
	}
	return host
}

func tlsSettings(t *networking.ClientTLSSettings, namespace string) *TLSSettings {
	if t == nil {
		return nil
	}
	modes := map[networking.ClientTLSSettings_TLSmode]TLSMode{
		networking.ClientTLSSettings_DISABLE:      TLSDisable,
		networking.ClientTLSSettings_SIMPLE:       TLSSimple,
		networking.ClientTLSSettings_MUTUAL:       TLSMutual,
		networking.ClientTLSSettings_ISTIO_MUTUAL: TLSIstioMutual,
	}
	out := &TLSSettings{
		Mode: modes[t.Mode], SNI: t.Sni, SANs: t.SubjectAltNames, CACertificates: t.CaCertificates,
		CRL: t.CaCrl, ClientCertificate: t.ClientCertificate, PrivateKey: t.PrivateKey, CredentialName: t.CredentialName,
		InsecureSkipVerify: t.InsecureSkipVerify.GetValue(),
	}
	if out.CredentialName != "" {
		out.Namespace = namespace
	}
	return out
}

// Origination says whether an exit speaks TLS to the host for clients that speak plain HTTP (or TCP, where a rule says
// so), and to which port. Without a rule: when the port's target is 443, or when the same entry registers a TLS port,
// which is then where plain HTTP goes too. nil: the client's bytes go on as they are.
func Origination(svc *Service, port Port, rule *DestinationRule) (*TLSSettings, uint32) {
	if port.Protocol == TLS {
		return nil, port.TargetPort
	}
	if t := rule.TLSFor(port.Number); t != nil {
		return t, port.TargetPort
	}
	if !port.Protocol.IsHTTP() || (svc.Wildcard() && port.Number != 80) {
		return nil, port.TargetPort // a wildcard's port is the one in the request, which a proxy cannot exchange
	}
	simple := &TLSSettings{Mode: TLSSimple}
	if port.TargetPort == 443 {
		return simple, port.TargetPort
	}
	if !port.Explicit {
		if to, ok := securePort(svc); ok {
			return simple, to.TargetPort
		}
	}
	return nil, port.TargetPort
}

// securePort finds the TLS port of an entry: 443 if there is one, else the lowest.
func securePort(svc *Service) (Port, bool) {
	var first Port
	for _, p := range svc.Ports {
		if p.Protocol != TLS || p.Routed {
			continue
		}
		if p.Number == 443 {
			return p, true
		}
		if first.Number == 0 {
			first = p
		}
	}
	return first, first.Number != 0
}
