package upstream

import (
	"fmt"
	"net/netip"
	"strings"
)

// Transport is how a server is asked.
type Transport uint8

// The transports. UDP goes on by TCP when an answer does not fit.
const (
	UDP Transport = iota
	TCP
	TLS // RFC 7858
)

// String is the transport's name in addresses.
func (t Transport) String() string { return [...]string{"udp", "tcp", "tls"}[t] }

// Server is where a resolver is and how it is asked.
type Server struct {
	Addr      netip.AddrPort
	Transport Transport
	Name      string // for TLS: the name in the certificate; "" is the address
}

// String is the server as ParseServer reads it. UDP is not named.
func (s Server) String() string {
	switch {
	case s.Transport == UDP:
		return s.Addr.String()
	case s.Name == "":
		return fmt.Sprintf("%s://%s", s.Transport, s.Addr)
	default:
		return fmt.Sprintf("%s://%s#%s", s.Transport, s.Addr, s.Name)
	}
}

// ParseServer reads IP, IP:PORT, udp://…, tcp://… or tls://IP[:853]#NAME.
func ParseServer(text string) (Server, error) {
	var s Server
	rest := strings.TrimSpace(text)
	port := uint16(53)
	if scheme, after, ok := strings.Cut(rest, "://"); ok {
		switch strings.ToLower(scheme) {
		case "udp":
		case "tcp":
			s.Transport = TCP
		case "tls":
			s.Transport, port = TLS, 853
		default:
			return s, fmt.Errorf("%q: unknown transport %q; write udp://, tcp:// or tls://", text, scheme)
		}
		rest = after
	}
	rest, name, named := strings.Cut(rest, "#")
	if named && (s.Transport != TLS || !isName(name)) {
		return s, fmt.Errorf("%q: #NAME is the name in a server's certificate, as in tls://192.0.2.1#dns.example", text)
	}
	s.Name = strings.TrimSuffix(name, ".")
	addr, err := netip.ParseAddrPort(rest)
	if err != nil {
		ip, err := netip.ParseAddr(strings.Trim(rest, "[]"))
		if err != nil {
			return s, fmt.Errorf("%q: not an address; write IP or IP:PORT, as in 10.96.0.10 or [2001:db8::53]:53", text)
		}
		addr = netip.AddrPortFrom(ip, port)
	}
	if addr.Port() == 0 {
		return s, fmt.Errorf("%q: port 0 cannot be asked", text)
	}
	s.Addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	return s, nil
}

func isName(name string) bool {
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label == "" || len(label) > 63 || strings.ContainsAny(label, " \t/:@#") {
			return false
		}
	}
	return true
}
