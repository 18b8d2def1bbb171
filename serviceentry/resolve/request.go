package resolve

import (
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/serviceentry/route"
)

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
