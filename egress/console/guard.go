package console

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// contentPolicy lets the pages load their own files and nothing else; no other page may frame them.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// guard refuses requests for other hosts, and those that another site's page makes and that would change something, and sets the headers
// that keep a browser strict.
func guard(next http.Handler, allowed func(host string) bool) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		if !allowed(r.Host) {
			http.Error(w, "this page answers to localhost and loopback addresses only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostCheck returns the check of the Host header for a page that listens on an address: on loopback only loopback
// names pass, elsewhere the listener's address says nothing about the names people use.
func hostCheck(addr net.Addr) func(host string) bool {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return func(string) bool { return true }
	}
	return isLoopbackHost
}

// isLoopbackHost knows localhost and the addresses of 127.0.0.0/8 and ::1, with or without a port.
func isLoopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
