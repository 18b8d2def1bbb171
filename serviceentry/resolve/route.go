package resolve

import (
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Route is what happens to some of what comes for a port of a host. Of a port's routes the first counts that takes it.
type Route struct {
	For     Kind
	FoundBy FoundBy
	// Dialled keeps it to connections that dialled an address in this range, which then is where they go; of exits.
	Dialled netip.Prefix

	// HTTP is the user's route of requests, and Match what it asks of them; L4 is what one asks of connections. Where neither
	// is set, all are meant, and go as the host is registered.
	HTTP  *route.HTTP
	Match *route.HTTPMatch
	L4    *route.L4Match
	// To is where what takes a user's route goes, each destination by its weight; Mirrors get copies.
	To, Mirrors  []WeightedDestination
	ExternalAuth *WeightedDestination // who is asked first whether a request may pass
	// Audience are the namespaces that may take it, at an exit; nil is everybody.
	Audience []string

	Action Action
	// Closed is why, where it does Close.
	Closed *registry.ClosedPort
	// By is the object that says so, and Revision that object's.
	By       config.Key
	Revision string
	Field    string // where in the object, of a user's route: "http[0]"
}

// Kind is what a proxy makes of what comes.
type Kind uint8

// The kinds.
const (
	Connections    Kind = iota // all whose bytes are not looked at
	TLSConnections             // of these, the ones that begin with a ClientHello
	Requests                   // of HTTP
)

// FoundBy is how a connection to a host outside was found to be for it.
type FoundBy uint8

// The ways.
const (
	Anyhow     FoundBy = iota
	ByAddress          // TLS whose name leads nowhere, if it shows one, and whose address leads to the host
	Nameless           // of these, what shows no name
	Misnamed           // of these, what shows one
	ByHostName         // TLS that names the host, or one that a pattern covers
	ByName             // TLS that names the host by any name that it has
	Otherwise          // neither by a name that the host has nor Nameless: by its address, and not TLS or with another name
)

// Action is what a route does.
type Action uint8

// What routes do.
const (
	Forward       Action = iota // hands it on: to the host, or to the gateway that leads there
	WrongProtocol               // ends it: something else is registered for the port
	Close                       // ends it: what an object asks for cannot be kept
	NotRegistered               // treats it as what nobody registered
	WrongAddress                // ends it: the address that was dialled is none that an exit connects to
	Answer                      // answers it: a user's redirect or response
	Unrouted                    // ends it: none of the user's routes means it
)

// Attempt is what a proxy sees of a request or a connection.
type Attempt struct {
	Kind Kind
	// Name is the one that it shows, in lower case: "" for none.
	Name string
	// Again says of TLS that it was found by its address, since its name led nowhere.
	Again bool
	// Hello is what connections that are not read begin with, for whoever reads them farther on.
	Hello ClientHello
	// Address is the one that was dialled; the zero Addr where that is not known.
	Address netip.Addr
	// Request is what routes of users ask for; of connections, its SNI.
	Request route.Request
}

// ClientHello is the beginning of TLS; the zero value is of none.
type ClientHello struct {
	TLS  bool
	Name string // in lower case; "" for none
}

// Read is what a proxy sees that looks for TLS in connections which were handed on unread.
func (x Attempt) Read() Attempt {
	if x.Kind == Connections && x.Hello.TLS {
		x.Kind, x.Name, x.Request.SNI = TLSConnections, x.Hello.Name, x.Hello.Name
	}
	return x
}

// Takes says whether a route is for an attempt. own is the host's own name.
func (r *Route) Takes(x Attempt, own string) bool {
	if r.For != x.Kind && !(r.For == Connections && x.Kind == TLSConnections) {
		return false
	}
	if r.Dialled.IsValid() && x.Address.IsValid() && !r.Dialled.Contains(x.Address) {
		return false
	}
	if r.Match != nil && !r.Match.Holds(&x.Request) || r.L4 != nil && !r.L4.Holds(&x.Request) {
		return false
	}
	switch r.FoundBy {
	case ByAddress:
		return x.Again
	case Nameless:
		return x.Again && x.Name == ""
	case Misnamed:
		return x.Again && x.Name != ""
	case Otherwise:
		return x.Kind != TLSConnections || x.Again == (x.Name != "")
	case ByHostName:
		return x.Name != "" && !x.Again && (own[0] == '*' || x.Name == own)
	case ByName:
		return x.Name != "" && !x.Again
	default:
		return true
	}
}

// FirstMatch gives the first route that takes an attempt; nil where none does.
func FirstMatch(routes []Route, x Attempt, own string) *Route {
	for i := range routes {
		if routes[i].Takes(x, own) {
			return &routes[i]
		}
	}
	return nil
}

// Scheme is what a workload speaks.
type Scheme string

// The schemes. HTTPS and TLS look the same on the wire.
const (
	HTTP  Scheme = "http"
	HTTPS Scheme = "https"
	TLS   Scheme = "tls"
	TCP   Scheme = "tcp"
)

// IsTLS says whether it begins with a ClientHello.
func (s Scheme) IsTLS() bool { return s == HTTPS || s == TLS }

// Destination is what a workload tries to reach. Host is a name in lower case, or an address.
type Destination struct {
	Scheme Scheme
	Host   string
	Port   uint32
	Path   string // with its query; "" is "/"
	Method string // of a request; "" is GET
	// Headers are a request's, by names in lower case.
	Headers map[string][]string
	At      time.Time // when; the zero time is now
	// Dialled is the address that was connected to, where that is known; otherwise it is what the workload's DNS answers.
	Dialled netip.Addr
	Unknown *route.Unknown // what is not known of the request
}
