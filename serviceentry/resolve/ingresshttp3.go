package resolve

import (
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// leaveOutHTTP3 has servers not speak HTTP/3 that are closed, and then those below whose patterns is a host of one that does not: who asks for that by QUIC, which has no chain of
// its own there, would be taken for a client of the pattern's.
func leaveOutHTTP3(servers []IngressServer) {
	for i := range servers {
		if servers[i].Closed != "" {
			servers[i].HTTP3 = 0
		}
	}
	for again := true; again; {
		again = false
		for i := range servers {
			if s := &servers[i]; s.HTTP3 != 0 && slices.ContainsFunc(servers, s.takesByHTTP3) {
				s.HTTP3, again = 0, true
			}
		}
	}
}

// takesByHTTP3 says whether another server's host, which is not asked for by HTTP/3, is below a pattern of the server's.
func (s *IngressServer) takesByHTTP3(other IngressServer) bool {
	return other.HTTP3 == 0 && other.Listen == s.Listen && other.Serves.Family() == registry.PassesTLS && slices.ContainsFunc(other.Hosts, func(host string) bool {
		return slices.ContainsFunc(s.Hosts, func(pattern string) bool { return pattern != host && registry.Covers(pattern, host) })
	})
}
