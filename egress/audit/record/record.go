package record

import (
	"strings"
	"time"
)

// Class says what a record is about, in the terms of OCSF 1.x.
type Class string

// The classes. A gap stands for records that were lost: Record.Count says how many.
const (
	Network Class = "network" // OCSF 4001, Network Activity
	HTTP    Class = "http"    // OCSF 4002, HTTP Activity
	DNS     Class = "dns"     // OCSF 4003, DNS Activity
	Gap     Class = "gap"
	// Action is what somebody did by a page or a command: a word of review, a login. No proxy reports any.
	Action Class = "action" // OCSF 6003, API Activity
)

// Verdict is what was decided about the traffic.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed"
	Denied  Verdict = "denied"
)

// The paths that traffic can take.
const (
	PathGateway     = "gateway"     // by the egress gateway
	PathDirect      = "direct"      // registered, straight from the sidecar
	PathPassthrough = "passthrough" // not registered, let through to its original destination
	PathBlackhole   = "blackhole"   // not registered, closed
	PathMesh        = "mesh"        // to a workload of the mesh
)

// The directions of traffic, as seen from the mesh: OCSF's.
const (
	Outbound = "outbound" // from the mesh to the outside
	Inbound  = "inbound"  // from the outside into the mesh
	Lateral  = "lateral"  // from workload to workload of the mesh
)

// Who vouches for the name of an Actor.
const (
	ByToken  = "token"  // the API server, which knew a token
	ByIssuer = "issuer" // an issuer of identities
	BySystem = "system" // the operating system of whoever called a command
)

// What reports actions.
const (
	ReporterConsole = "console"
	ReporterCommand = "command"
)

// The kinds of proxy that report.
const (
	ReporterSidecar = "sidecar"
	ReporterGateway = "gateway"
	ReporterProxy   = "proxy" // the explicit forward proxy
	// ReporterDestination is the proxy of the workload that was reached. Nobody else vouches for who it says came.
	ReporterDestination = "destination"
)

// Record is one line of the audit log. (Proxy, Epoch, Seq) identifies it: a store that has seen the triple
// drops the copy.
type Record struct {
	Proxy string `json:"proxy"` // node id of the reporting proxy
	Epoch uint64 `json:"epoch"` // when that proxy's spool began, Unix nanoseconds
	Seq   uint64 `json:"seq"`

	Time     time.Time `json:"time"` // when the connection or request began
	Class    Class     `json:"class"`
	Verdict  Verdict   `json:"verdict,omitempty"`
	Path     string    `json:"path,omitempty"`
	Reporter string    `json:"reporter,omitempty"`
	// Direction is one of Outbound, Inbound and Lateral; "" of gaps.
	Direction string `json:"direction,omitempty"`

	Workload Workload `json:"workload"`
	Source   string   `json:"source,omitempty"` // ip:port that the connection came from, as the reporter saw it
	// DestinationWorkload is who was reached, where that is a workload of the mesh and known.
	DestinationWorkload Workload `json:"destinationWorkload,omitzero"`
	// Claim is whom a gateway says that the traffic came from, by SPIFFE id, where only its own identity is believed:
	// then that is the Workload. Of a destination it is the client whose certificate that verified.
	Claim string `json:"claim,omitempty"`
	// ForwardedFor is the address that the client's X-Forwarded-For ends with: what the client says, and nobody verified.
	ForwardedFor string `json:"forwardedFor,omitempty"`

	Host        string `json:"host,omitempty"` // the name that was tried, without its port
	Port        uint32 `json:"port,omitempty"`
	SNI         string `json:"sni,omitempty"`
	Authority   string `json:"authority,omitempty"`
	Destination string `json:"destination,omitempty"` // ip:port really connected to, or tried
	Dialled     string `json:"dialled,omitempty"`     // ip:port that the client connected to, where the reporter saw it
	Protocol    string `json:"protocol,omitempty"`    // http, tls, tcp, dns

	Method  string `json:"method,omitempty"`
	URLPath string `json:"urlPath,omitempty"`
	Status  uint32 `json:"status,omitempty"` // HTTP status sent to the client

	Cluster   string `json:"cluster,omitempty"` // Envoy's upstream cluster
	Route     string `json:"route,omitempty"`   // Envoy's route name
	DecidedBy Object `json:"decidedBy"`
	Reason    string `json:"reason,omitempty"`
	// AllowedBy is the rule of an EgressPolicy that allowed it, the last that was asked; without one, that of an AuthorizationPolicy.
	AllowedBy Object `json:"allowedBy,omitzero"`
	// WouldDeny is the rule by which it would have been denied if the policies that are observed were enforced.
	WouldDeny Object `json:"wouldDeny,omitzero"`

	// Of an action: who did it ("" where nobody logged in), who vouches for that name, and what it was. The workload, host and port are those that
	// it is about, DecidedBy the object.
	Actor   string `json:"actor,omitempty"`
	ActorBy string `json:"actorBy,omitempty"`
	Action  string `json:"action,omitempty"`

	BytesSent     uint64        `json:"bytesSent"`     // towards the client
	BytesReceived uint64        `json:"bytesReceived"` // from the client
	Duration      time.Duration `json:"durationNanos"`
	Flags         []string      `json:"flags,omitempty"` // Envoy's response flags, short form

	Count uint64   `json:"count,omitempty"` // for gaps: how many records are missing
	Cut   []string `json:"cut,omitempty"`   // fields that were too long, and end with "…" (see Bound)
}

// Workload is who sent the traffic. At a gateway all of it comes from the peer's verified certificate.
type Workload struct {
	Principal      string `json:"principal,omitempty"` // SPIFFE id
	Namespace      string `json:"namespace,omitempty"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	Name           string `json:"name,omitempty"` // the pod, where it is known
	// Labels are the pod's, "key=value,key=value" in order, as the control plane knew them when the record came in. No proxy's
	// word counts (Labels, docs/adr/0021-the-general-record.md).
	Labels string `json:"labels,omitempty"`
}

// The kinds of an Object with rules.
const (
	EgressPolicy        = "EgressPolicy"
	AuthorizationPolicy = "AuthorizationPolicy"
)

// HasRules says whether it is a policy.
func (o *Object) HasRules() bool { return o.Kind == EgressPolicy || o.Kind == AuthorizationPolicy }

// RequestAuthentication is the kind of the objects that ask for good tokens.
const RequestAuthentication = "RequestAuthentication"

// Object names the configuration object, and the rule in it, that decided.
type Object struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Rule      string `json:"rule,omitempty"`
	// Revision tells versions of what decided apart: a content hash, see docs/adr/0021-the-general-record.md.
	Revision string `json:"revision,omitempty"`
}

// IsZero says whether it names nothing.
func (o *Object) IsZero() bool {
	return len(o.Kind)+len(o.Namespace)+len(o.Name)+len(o.Rule)+len(o.Revision) == 0
}

// ParseObject reads KIND/NAMESPACE/NAME, as configuration quotes objects; the zero Object if it is not of that form.
func ParseObject(text string) Object {
	kind, rest, _ := strings.Cut(text, "/")
	namespace, name, whole := strings.Cut(rest, "/")
	if !whole {
		return Object{}
	}
	return Object{Kind: kind, Namespace: namespace, Name: name}
}
