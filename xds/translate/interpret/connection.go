package interpret

import (
	"net/netip"
	"strings"
	"time"
)

// Connection is one that a client makes.
type Connection struct {
	To netip.AddrPort // where the client connected to
	// Through is the port of the listener that gets it: that of To, or, Redirected, the one that iptables redirects to.
	Through    uint32
	Redirected bool
	From       netip.AddrPort
	Bytes      Bytes
	// At is when it comes; without it, what asks for the time is unknown.
	At time.Time
	// Chance decides where chance does: weights, fractions.
	Chance uint64
}

// Bytes are what a client sends, as far as it is looked at. At most one of Hello and Request is set. Without either they
// begin neither TLS nor HTTP.
type Bytes struct {
	Hello   *Hello
	Request *Request
	// Waits is that the server speaks first: nothing comes before that.
	Waits bool
}

// Hello is a ClientHello, and what comes after it.
type Hello struct {
	SNI  string // in the client's case
	ALPN []string
	// Peer are the URI names of the certificate that the client shows if it is asked to; nil for none.
	Peer []string
	// Inside is what is said to whoever ends the TLS.
	Inside *Bytes
}

// Request is an HTTP request. Names of headers are in lower case, several values of one joined by commas.
type Request struct {
	Method    string
	Authority string
	Path      string // with its query; "" of CONNECT
	Headers   map[string]string
	Tunnel    *Bytes         // what follows a CONNECT
	Claims    map[string]any // of a good token that it has: texts, lists and maps, as encoding/json reads them
}

// header gives a header, or a pseudo header.
func (r *Request) header(name string) (string, bool) {
	switch name = strings.ToLower(name); name {
	case ":authority", "host":
		return r.Authority, true
	case ":method":
		return r.Method, true
	case ":path":
		return r.Path, r.Path != ""
	case ":scheme":
		return "http", true // of all that comes in plain text, or between proxies
	}
	v, ok := r.Headers[name]
	return v, ok
}

func (r *Request) clone() *Request {
	out := *r
	out.Headers = make(map[string]string, len(r.Headers))
	for k, v := range r.Headers {
		out.Headers[k] = v
	}
	return &out
}

// Outcome is what became of a connection, or of the request on it.
type Outcome struct {
	Upstream *Upstream // where it was sent; nil where it ended here
	Response *Response // the proxy's own answer to a request
	Closed   string    // why the connection was closed; "" where it was not
	Entries  []Entry   // what the proxy wrote into its access log
	Asked    []string  // the authorizers that were asked on the way, and are taken to have said yes
	Steps    []string  // what happened, to be read
}

// Response is an answer that the proxy made itself.
type Response struct {
	Status  uint32
	Body    []byte
	Headers map[string]string
	Details string // Envoy's response code details
}

// Upstream is a connection that a proxy makes.
type Upstream struct {
	Cluster string
	// Role, and the like, are in the cluster's metadata.
	Metadata  map[string]map[string]string
	Addresses []string // one of them is connected to, "host:port"; none: it fails
	Bytes     Bytes    // what is said there, inside the TLS of the proxy's own, if there is any
	// Mirrors are the clusters that get a copy of the request.
	Mirrors []string
}

// Arrives is the connection as the proxy at the other end gets it, at one of its own addresses.
func (u *Upstream) Arrives(at, from netip.AddrPort) Connection {
	return Connection{To: at, Through: uint32(at.Port()), From: from, Bytes: u.Bytes}
}

// Entry is an entry of the access log.
type Entry struct {
	Log     string
	Tags    map[string]string // the custom tags; what Envoy does not know is "-" or ""
	Cluster string
	Route   string
	Details string
	Flags   []string
	Status  uint32
	// Metadata is the dynamic metadata, by filter.
	Metadata map[string]map[string]string
}
