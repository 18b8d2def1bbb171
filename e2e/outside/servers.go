package outside

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// StreamPath is where a server goes on sending a line every StreamInterval until the client leaves.
const StreamPath = "/stream/"

// StreamInterval is the time between two lines of a stream.
const StreamInterval = 50 * time.Millisecond

// Servers are web servers, one for plain HTTP and one for HTTPS on each address, that answer for every name they
// were given.
type Servers struct {
	guestbook

	ca    *CA
	names []string
	http  []*http.Server
}

// StartServers serves until Close. The names are those that have certificates.
func StartServers(ca *CA, names []string, plain, secure []net.Listener) *Servers {
	s := &Servers{ca: ca, names: names}
	for _, l := range plain {
		server := s.server("http")
		go func() { _ = server.Serve(countingListener{l, &s.guestbook}) }()
	}
	for _, l := range secure {
		server := s.server("https")
		server.TLSConfig = &tls.Config{GetCertificate: s.certificate, MinVersion: tls.VersionTLS12}
		go func() { _ = server.ServeTLS(countingListener{l, &s.guestbook}, "", "") }()
	}
	return s
}

// Close ends the servers with all their connections.
func (s *Servers) Close() error {
	var errs []error
	for _, server := range s.http {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}

func (s *Servers) server(scheme string) *http.Server {
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // refused handshakes are part of the story
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.answer(scheme, w, r)
		}),
	}
	s.http = append(s.http, server)
	return server
}

func (s *Servers) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if !slices.Contains(s.names, hello.ServerName) {
		return nil, fmt.Errorf("no certificate for %q", hello.ServerName)
	}
	return s.ca.Issue(hello.ServerName)
}

func (s *Servers) answer(scheme string, w http.ResponseWriter, r *http.Request) {
	seen := Sighting{
		Time: time.Now(), Scheme: scheme, Host: hostOnly(r.Host), Method: r.Method, Path: r.URL.Path, Proto: r.Proto,
		Local: localOf(r),
	}
	seen.Peer, _ = netip.ParseAddrPort(r.RemoteAddr)
	if r.TLS != nil {
		seen.SNI = r.TLS.ServerName
	}
	s.saw(seen)
	w.Header().Set("Content-Type", "text/plain")
	if strings.HasPrefix(r.URL.Path, StreamPath) {
		stream(w, r)
		return
	}
	_, _ = fmt.Fprintf(w, "%s at %s says hello to %s\n", seen.Host, seen.Local.Addr(), seen.Peer.Addr())
}

// streamLimit ends streams that nobody ended.
const streamLimit = 5 * time.Minute

// stream writes lines until the client leaves or streamLimit has passed.
func stream(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(StreamInterval)
	defer tick.Stop()
	out := http.NewResponseController(w)
	for i := range int(streamLimit / StreamInterval) {
		if _, err := fmt.Fprintf(w, "line %d\n", i); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

func localOf(r *http.Request) netip.AddrPort {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return addrPort(a)
	}
	return netip.AddrPort{}
}

func hostOnly(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}
