package envoy

import (
	"net/http"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/xds/wire"
)

// aHost is what the Host of a request may be (RFC 9110 section 7.2): a name, of which no letter has to be written in another way, or an address; and a port. Nothing in it is what somebody reads as
// a user's name before another host, or as several hosts, which is what Envoy makes of several lines (RFC 9112 section 3.2). Questions about connections have no host where that has no name.
const aHost = `([A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?`

// noHost is why a request is refused whose Host is something else.
const noHost = "its Host is not one name or address, so that servers may read it as another one than policies were asked about"

// RefuseOddHosts has a row that is for more than one name refuse requests whose Host is no host: such a row, and what policies say of patterns, would take them for what they end with. What is for one name
// takes that alone. Questions are answered as ever. See docs/adr/0224-hosts-that-are-none.md.
func RefuseOddHosts(row *routev3.VirtualHost) *routev3.VirtualHost {
	if !slices.ContainsFunc(row.Domains, func(domain string) bool { return domain[0] == '*' }) {
		return row
	}
	at := slices.IndexFunc(row.Routes, func(r *routev3.Route) bool { return !IsAnswer(r) })
	if at < 0 || row.Routes[at].Name == wire.ClosedRoute+noHost {
		return row // of connections alone; or it does already
	}
	odd := MatchAnyRequest()
	odd.Headers = []*routev3.HeaderMatcher{{Name: ":authority", HeaderMatchSpecifier: HeaderMatches(aHost), InvertMatch: true}}
	row.Routes = slices.Insert(row.Routes, at, Refuse(wire.ClosedRoute+noHost, odd, http.StatusBadRequest, "sallyport: the Host of a request is one name or address, and a port\n", nil))
	return row
}
