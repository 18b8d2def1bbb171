package registry

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/inside"
)

// Connector is where a host is reached from: by a shared gateway, by a forward proxy, or by the workload's own sidecar.
type Connector struct {
	Kind ConnectorKind
	// Namespace is the workload's at a sidecar, "" for one that sees what everybody sees; at a gateway, the gateway's; at a
	// forward proxy, that on whose behalf it is.
	Namespace string
	Secrets   SecretAccess
	// Node says that the proxy is a node's, which pods of all namespaces share: no namespace's files are there.
	Node bool
}

// ConnectorKind is the kind of a Connector.
type ConnectorKind uint8

// The kinds of connectors.
const (
	AtSidecar ConnectorKind = iota
	AtGateway
	AtForward
)

// SecretAccess says what a connector is given of Secrets.
type SecretAccess uint8

// The ways.
const (
	GivesSecrets  SecretAccess = iota // the proxy came over TLS
	NoSecrets                         // it did not: it is given no keys
	SecretsUnseen                     // nobody knows what Secrets there are, and nothing is said about them
)

// UpstreamRestrictions is what a connector does about a host's far end: whom it does not connect to, and what it closes rather than do
// something else than was asked for. Policy decides by it and proxies are programmed by it.
type UpstreamRestrictions struct {
	Refused []RefusedEndpoint           // endpoints that are left out
	Whole   *ClosedPort                 // why none of its ports is reached; nil where some may be
	Closed  map[uint32]ClosedPort       // ports, by number
	Given   map[uint32]ServedCredential // what of a Secret a port needs
	Dialled []netip.Prefix              // what a gateway takes of a client, see Service.Dialled
}

// ServedCredential is what a proxy is given of a credential.
type ServedCredential struct {
	Ref         CredentialRef
	Pair, Roots bool          // the certificate with its key; whom to trust
	Trust       CredentialRef // what says whom to trust, where it is not Ref
}

// Each gives what is given of each credential.
func (g ServedCredential) Each() []ServedCredential {
	if g.Trust == (CredentialRef{}) {
		return []ServedCredential{g}
	}
	out := []ServedCredential{{Ref: g.Trust, Roots: true}}
	if g.Pair {
		out = append(out, ServedCredential{Ref: g.Ref, Pair: true})
	}
	return out
}

// Wraps says whether what goes to a port is wrapped in the TLS that settings ask for. Apps speak it themselves to a port of TLS.
func (t *TLSSettings) Wraps(port Port) bool { return t != nil && (port.Protocol != TLS || t.Always()) }

// mutual says whether it is the mesh's own TLS, in which also goes what apps wrap themselves.
func (t *TLSSettings) mutual(svc *Service) bool {
	return t != nil && t.Mode == TLSIstioMutual && !svc.External
}

// Always says that it is about what a gateway sends, whatever the port is named for: a BackendTLSPolicy asks for it, or the gateway reads requests.
func (t *TLSSettings) Always() bool { return t != nil && (t.By != nil || t.Whole) }

// ClosesFor says whether a port is closed for these settings of its TLS, which what speaks TLS itself does not need.
func (r *DestinationRule) ClosesFor(t *TLSSettings, c ClosedPort) bool {
	if t.By != nil {
		return c.By == *t.By
	}
	return r != nil && c.By == r.Key
}

// Within is the port as it is inside of the TLS of settings.
func (p Port) Within(t *TLSSettings) Port {
	if p.Protocol == TLS && t.Always() {
		p.Protocol = HTTP
	}
	return p
}

// RefusedEndpoint is the address of an endpoint, as it is written, that is not connected to.
type RefusedEndpoint struct{ Address, Why, Fix string }

// ClosedPort says why nothing is sent to a port, and which object is to be mended.
type ClosedPort struct {
	By  config.Key
	Why string // names the field
	Fix string
	// Revision is that object's.
	Revision string
}

// String gives the reason with what to do.
func (c ClosedPort) String() string { return c.Why + "; " + c.Fix }

// revised is c with the revision of the object that it names.
func (c ClosedPort) revised(svc *Service, rule *DestinationRule) ClosedPort {
	switch {
	case c.By == svc.Source:
		c.Revision = svc.Revision
	case rule != nil && c.By == rule.Key:
		c.Revision = rule.Revision
	}
	return c
}

// Key tells far ends apart: equal keys mean equal far ends.
func (f UpstreamRestrictions) Key() string {
	if len(f.Refused) == 0 && len(f.Closed) == 0 && len(f.Given) == 0 && len(f.Dialled) == 0 {
		return ""
	}
	return fmt.Sprint(f.Refused, f.Closed, f.Given, f.Dialled) // maps print in the order of their keys
}

// Leads says whether an endpoint is one that is connected to.
func (f UpstreamRestrictions) Leads(e Endpoint) bool {
	return !slices.ContainsFunc(f.Refused, func(r RefusedEndpoint) bool { return r.Address == e.Address })
}

// UpstreamRestrictions judges a service as it is reached by a connector, with the rule that counts there. A port whose settings cannot be
// kept is closed: in no case does plain text go where TLS was asked for, nor a gateway's own certificate anywhere.
func (s *Snapshot) UpstreamRestrictions(svc *Service, rule *DestinationRule, p Connector) UpstreamRestrictions {
	var f UpstreamRestrictions
	f.Refused = s.refusedEndpoints(svc, p)
	if len(f.Refused) > 0 && len(f.Refused) == len(svc.Endpoints) {
		f.closeWhole(svc, ClosedPort{By: svc.Source, Why: "endpoints: " + f.Refused[0].Address + " " + f.Refused[0].Why, Fix: f.Refused[0].Fix}.revised(svc, rule))
		return f
	}
	if c, closed := ownHost(svc, p); closed {
		f.closeWhole(svc, c.revised(svc, rule))
		return f
	}
	if c, closed := s.reserved(svc, p); closed {
		f.closeWhole(svc, c.revised(svc, rule))
		return f
	}
	for _, port := range svc.Ports {
		if c, closed := s.closed(svc, port, rule, p); closed {
			f.close(port, c.revised(svc, rule))
			continue
		}
		if t := rule.TLSFor(port.Number); t.Wraps(port) && (t.CredentialName != "" || t.Trust.Bundle != "") && (p.Kind != AtSidecar || svc.Exit.IsZero()) {
			f.give(port, s.given(t))
		}
	}
	if p.Kind == AtGateway && svc.Dialled() {
		f.Dialled = s.dialled(svc)
	}
	return f
}

// Secrets are what its ports need of Secrets, in the ports' order.
func (f UpstreamRestrictions) Secrets() []ServedCredential {
	var out []ServedCredential
	for _, port := range slices.Sorted(maps.Keys(f.Given)) {
		out = append(out, f.Given[port].Each()...)
	}
	return out
}

func (f *UpstreamRestrictions) closeWhole(svc *Service, c ClosedPort) {
	f.Whole = &c
	for _, port := range svc.Ports {
		f.close(port, c)
	}
}

func (f *UpstreamRestrictions) close(port Port, c ClosedPort) {
	if f.Closed == nil {
		f.Closed = map[uint32]ClosedPort{}
	}
	f.Closed[port.Number] = c
}

func (f *UpstreamRestrictions) give(port Port, g ServedCredential) {
	if !g.Pair && !g.Roots {
		return
	}
	if f.Given == nil {
		f.Given = map[uint32]ServedCredential{}
	}
	f.Given[port.Number] = g
}

// Datagrams says why nothing goes by UDP to a host for which a rule counts; false where it may.
func (f UpstreamRestrictions) Datagrams(rule *DestinationRule) (ClosedPort, bool) {
	if f.Whole != nil {
		return *f.Whole, true
	}
	c, refused := rule.closesAll()
	if refused {
		c.Revision = rule.Revision
	}
	return c, refused
}

// closesAll is why a rule of which nothing is applied closes what it is for.
func (r *DestinationRule) closesAll() (ClosedPort, bool) {
	if r == nil || r.Refused == "" {
		return ClosedPort{}, false
	}
	return ClosedPort{By: r.Key, Why: "spec: the rule asks for TLS and is refused: " + r.Refused, Fix: "until it is right, nothing is sent"}, true
}

// closed judges one port's TLS.
func (s *Snapshot) closed(svc *Service, port Port, rule *DestinationRule, p Connector) (ClosedPort, bool) {
	if c, refused := rule.closesAll(); refused && port.Protocol != TLS {
		return c, true
	}
	if p.Kind == AtSidecar && !svc.Exit.IsZero() {
		if c, long := s.unnamable(svc, port); long {
			return c, true
		}
		return s.unlikeGateway(svc, port, rule)
	}
	t := rule.TLSFor(port.Number)
	if !t.Wraps(port) && !(t.mutual(svc) && t.Crowded != "") {
		return ClosedPort{}, false
	}
	why, fix := s.tlsProblem(svc, t, rule, p)
	if t.By != nil {
		return ClosedPort{By: *t.By, Revision: t.Revision, Why: why, Fix: fix}, why != ""
	}
	return ClosedPort{By: rule.Key, Why: why, Fix: fix}, why != ""
}

// unlikeGateway says what a workload's own rule asks for that the gateway, which follows the rules of the host's
// namespace, would not do.
func (s *Snapshot) unlikeGateway(svc *Service, port Port, rule *DestinationRule) (ClosedPort, bool) {
	t := rule.TLSFor(port.Number)
	if t == nil || t.Mode == TLSDisable || port.Protocol == TLS {
		return ClosedPort{}, false
	}
	theirs := s.ExitRule(svc)
	if theirs == rule {
		return ClosedPort{}, false
	}
	if does, _ := Origination(svc, port, theirs); does != nil && does.equal(t) {
		return ClosedPort{}, false
	}
	return ClosedPort{
		By:  rule.Key,
		Why: fmt.Sprintf("trafficPolicy.tls: the host leaves by the egress gateway %s, which serves all and does not follow this rule", svc.Exit),
		Fix: fmt.Sprintf("write the rule into namespace %s, without workloadSelector, or let the entry leave straight from the pod with the annotation %s: %s", svc.Namespace, GatewayAnnotation, ExitDirect),
	}, true
}

// ExitRule is the rule that a service's egress gateway follows. Of rules with a workloadSelector those count that select
// the gateway's own pods.
func (s *Snapshot) ExitRule(svc *Service) *DestinationRule {
	var selected SelectorKey
	if len(s.selecting) > 0 {
		if k, ok := s.KubeService(svc.Exit); ok {
			selected = s.Selecting(svc.Exit.Namespace, k.Selector)
		}
	}
	return s.Rule(svc, svc.Namespace, selected)
}

// refusedEndpoints are those that a connector does not connect to, and why. A shared gateway's network is not for rent: what
// objects write is held to what names may resolve to. A pod's own network is open to it anyway, but not the proxy's own
// host, where its administration is.
func (s *Snapshot) refusedEndpoints(svc *Service, p Connector) (out []RefusedEndpoint) {
	var allowed inside.Allowed
	if p.Kind == AtGateway && len(svc.Endpoints) > 0 {
		allowed = s.Mesh.DNS.PrivateFor(svc.Namespace)
	}
	for _, e := range svc.Endpoints {
		problem, fix := "", "write the address of another host"
		addr, err := netip.ParseAddr(e.Address)
		switch {
		case isSocket(e):
			problem = "is a file of the proxy's own host"
		case e.Address != "" && svc.Resolution == Static && (err != nil || addr.Zone() != ""):
			problem = "is no address"
		case err != nil && p.Kind != AtForward && inside.OwnName(e.Address):
			problem = "is the proxy's own host"
		case err != nil || p.Kind == AtForward: // of names, the resolver judges what they resolve to
		case inside.OwnHost(addr):
			problem = "is the proxy's own host"
		case p.Kind != AtGateway:
		case s.isOwn(addr):
			problem = "is a gateway of the mesh, or its control plane"
		case allowed.Refuses(svc.Host, addr):
			problem, fix = "is not a public address", fixPrivate(svc)
		}
		if problem != "" {
			out = append(out, RefusedEndpoint{Address: e.Address, Why: problem, Fix: fix})
		}
	}
	return out
}

// ownHost closes a registration of names that stand for the host of whoever looks them up, where they are looked up.
func ownHost(svc *Service, p Connector) (ClosedPort, bool) {
	if p.Kind == AtForward || !svc.External || len(svc.Endpoints) > 0 || !inside.OwnName(svc.Host) || svc.Resolution == Static || svc.Resolution == None && p.Kind == AtSidecar {
		return ClosedPort{}, false
	}
	return ClosedPort{By: svc.Source, Why: fmt.Sprintf("hosts: %s is the proxy's own host", svc.Host), Fix: "name the hosts that are meant"}, true
}

// reserved closes a registration of names that may be inside for another namespace, and not for its own: the resolver
// knows names, not who registered them.
func (s *Snapshot) reserved(svc *Service, p Connector) (ClosedPort, bool) {
	dns := s.Mesh.DNS
	if p.Kind != AtGateway || len(dns.AllowPrivateFor) == 0 {
		return ClosedPort{}, false
	}
	own := dns.PrivateFor(svc.Namespace)
	names := []string{svc.Host}
	for _, e := range svc.Endpoints {
		if _, err := netip.ParseAddr(e.Address); err != nil && !isSocket(e) {
			names = append(names, CanonicalHost(e.Address))
		}
	}
	for i, name := range names {
		of := dns.PrivateOf(name)
		if len(of) == 0 || own.Covers(name, netip.Addr{}) {
			continue
		}
		field := "hosts"
		if i > 0 {
			field = "endpoints"
		}
		return ClosedPort{
			By:  svc.Source,
			Why: fmt.Sprintf("%s: %s may have private addresses, for namespace %s only", field, name, strings.Join(of, ", ")),
			Fix: fmt.Sprintf("name other hosts, or allow it in the mesh settings with sallyport.dns.allowPrivateFor.%s", svc.Namespace),
		}, true
	}
	return ClosedPort{}, false
}

func isSocket(e Endpoint) bool { return strings.HasPrefix(e.Address, "unix:") }

func fixPrivate(svc *Service) string {
	return fmt.Sprintf("write a public address, allow this one in the mesh settings with sallyport.dns.allowPrivateFor.%s (or allowPrivate, for all), or let the entry leave straight from the pod with the annotation %s: %s",
		svc.Namespace, GatewayAnnotation, ExitDirect)
}
