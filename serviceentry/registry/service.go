package registry

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config"
)

// Protocol is what is spoken on a port, reduced to what routing asks.
type Protocol string

// The protocols. GRPC is HTTP2 to a proxy; HTTPS is TLS; MONGO and the like are TCP.
const (
	HTTP  Protocol = "HTTP"
	HTTP2 Protocol = "HTTP2"
	TLS   Protocol = "TLS"
	TCP   Protocol = "TCP"
	UDP   Protocol = "UDP"
)

// IsHTTP says whether requests on the port can be read.
func (p Protocol) IsHTTP() bool { return p == HTTP || p == HTTP2 }

// serverFirst are the ports on which the server is known to speak first: FTP, SSH, SMTP, POP3, IMAP, submission,
// MySQL. (Their TLS ports, 993 and 995, are not: there the client begins.)
var serverFirst = []uint32{21, 22, 25, 110, 143, 587, 3306}

// ServerFirstPorts are those on which nobody may wait for the client's first bytes.
func ServerFirstPorts() []uint32 { return slices.Clone(serverFirst) }

// ServerFirst says whether a port is one of them.
func ServerFirst(port uint32) bool { return slices.Contains(serverFirst, port) }

// Port is a port of a service. TargetPort is where its endpoints listen; it equals Number unless the user
// wrote another (Explicit says so).
type Port struct {
	Name       string
	Number     uint32
	TargetPort uint32
	Explicit   bool // the user wrote a targetPort
	Named      bool `json:",omitzero"` // the user wrote its name: each pod has a number for it
	Protocol   Protocol
	Routed     bool `json:",omitzero"` // only a route leads to it, see WithRouted
	// From is the object that registered the port, where that is not the service's own Source.
	From config.Key `json:",omitzero"`
	// Revision is that object's.
	Revision string `json:",omitzero"`
}

// Resolution says how a service's endpoints are found.
type Resolution uint8

// The resolutions. DNS covers DNS_ROUND_ROBIN and DYNAMIC_DNS: the proxy resolves the name it is asked for.
const (
	None   Resolution = iota // the address that the client chose
	Static                   // the endpoints written down
	DNS                      // the name, by DNS
)

// GatewayPort is the service port that sidecars reach an egress gateway at.
const GatewayPort = 443

// Ref names a Kubernetes service, such as a gateway's.
type Ref struct{ Namespace, Name string }

// IsZero says that nothing is named.
func (r Ref) IsZero() bool { return r == Ref{} }

// String gives the form that annotations use: "NS/SERVICE".
func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Host is the service's name in the cluster.
func (r Ref) Host() string { return r.Name + "." + r.Namespace + ".svc.cluster.local" }

// RefOf reads Host back; false of what is no such name.
func RefOf(host string) (Ref, bool) {
	short, ok := strings.CutSuffix(host, ".svc.cluster.local")
	name, ns, two := strings.Cut(short, ".")
	return Ref{Namespace: ns, Name: name}, ok && two && !strings.Contains(ns, ".")
}

// ExportTo says which namespaces see a service: all of them, or those named (sorted).
type ExportTo struct {
	All        bool
	Namespaces []string
}

// Includes says whether a workload in namespace ns may see the service.
func (e ExportTo) Includes(ns string) bool {
	if e.All {
		return true
	}
	_, found := slices.BinarySearch(e.Namespaces, ns)
	return found
}

// only says whether it names one namespace, and nobody else.
func (e ExportTo) only(ns string) bool {
	return !e.All && len(e.Namespaces) == 1 && e.Namespaces[0] == ns
}

// within is what is left of it in one namespace.
func (e ExportTo) within(ns string) ExportTo {
	if !e.Includes(ns) {
		return ExportTo{}
	}
	return ExportTo{Namespaces: []string{ns}}
}

// ExportRefusal is why an export does not count: the field that decides, and a few words.
type ExportRefusal struct{ Field, Why string }

// Service is one host as one object registered it. It is immutable; equal hashes mean equal services. There are as many as hosts, so what most of
// them say alike is in Traits, which they share, and what is said by a bit lies together.
type Service struct {
	Host      string // lower case, or a wildcard "*.example.com"
	Namespace string
	Source    config.Key
	Revision  string // of Source, see config.Object
	Created   time.Time

	Ports     []Port
	Endpoints []Endpoint // that were written with it, or that its workloadSelector picks; see also Tabled
	*Traits              // never nil
	Hash      uint64     // covers all else

	// MadeUp is where the addresses that are made up for a host that has none are in their ranges; 0 of one without.
	MadeUp     uint16 `json:",omitzero"`
	Resolution Resolution
}

// VIP4 and VIP6 are the addresses made up for a host that has none; else the zero Addr.
func (s *Service) VIP4() netip.Addr { v4, _ := addressesAt(s.MadeUp); return v4 }

// VIP6 is VIP4 for IPv6.
func (s *Service) VIP6() netip.Addr { _, v6 := addressesAt(s.MadeUp); return v6 }

// Wildcard says whether the host is a pattern.
func (s *Service) Wildcard() bool { return len(s.Host) > 0 && s.Host[0] == '*' }

// Port finds a port by its number; one for UDP where no other has it.
func (s *Service) Port(number uint32) (Port, bool) {
	at := -1 // that of UDP
	for i, p := range s.Ports {
		switch {
		case p.Number != number:
		case p.Protocol != UDP:
			return p, true
		case at < 0:
			at = i
		}
	}
	if at < 0 {
		return Port{}, false
	}
	return s.Ports[at], true
}

// DatagramPort finds the one for UDP.
func (s *Service) DatagramPort(number uint32) (Port, bool) {
	for _, p := range s.Ports {
		if p.Number == number && p.Protocol == UDP {
			return p, true
		}
	}
	return Port{}, false
}

// SourceOf is the object that registered one of the service's ports.
func (s *Service) SourceOf(p Port) config.Key {
	if p.From != (config.Key{}) {
		return p.From
	}
	return s.Source
}

// RevisionOf is the revision of SourceOf.
func (s *Service) RevisionOf(p Port) string {
	if p.From != (config.Key{}) {
		return p.Revision
	}
	return s.Revision
}

// entry says whether the service is what a ServiceEntry registers, or a route instead of one, or stands for one.
func (s *Service) entry() bool { return registers(s.Source.Kind) || s.Unregistered }

// compare orders services of one host by who wins where several are visible: the oldest object, then the
// names. (A namespace's own service wins over all others; see Snapshot.Visible.)
func (s *Service) compare(o *Service) int {
	if s.Unregistered != o.Unregistered {
		return cmp.Compare(map[bool]int{true: 1}[s.Unregistered], map[bool]int{true: 1}[o.Unregistered])
	}
	if c := s.Created.Compare(o.Created); c != 0 {
		return c
	}
	return cmp.Or(s.Source.Compare(o.Source), cmp.Compare(s.Host, o.Host))
}
